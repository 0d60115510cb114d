"""Masks of the same stream are detected at other positions; masks of separate streams never are."""

import pytest
import torch

from autograder.weeks.week05_tensor_parallel._masks import related

STEPS, ROWS, COLUMNS = 128, 16, 12
SEEDS = range(15)
MOVED = {
    "rolled": lambda draw, seed: draw.roll((seed % 5, seed % 7 + 1), (1, 2)),
    "mirrored": lambda draw, _: draw.flip(1, 2),
    "one step later": lambda draw, _: draw.roll(1, 0),
    "two steps earlier": lambda draw, _: draw.roll(-2, 0),
    "exchanged": lambda draw, seed: 1 - draw.roll(seed % 9, 1),
    "transposed": lambda draw, _: draw.mT,
    "shifted in each step": lambda draw, seed: torch.stack([one.roll(step % 6, 0) for step, one in enumerate(draw)]),
    "other places, the same in each step": lambda draw, seed: draw.flatten(1)[:, order(seed)].view_as(draw),
    "other places in each step": lambda draw, seed: torch.stack(
        [one.flatten()[order(seed + step)].view_as(one) for step, one in enumerate(draw)]
    ),
}


def order(seed):
    return torch.randperm(ROWS * COLUMNS, generator=torch.Generator().manual_seed(seed))


def drawn(seed):
    return torch.rand(STEPS, ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("how", MOVED)
def test_the_same_numbers_at_other_places_are_found(how):
    """Five seeds each: 45 cases."""
    for seed in SEEDS[:5]:
        draw = drawn(seed)
        own = MOVED[how](draw, seed)
        assert related({"own": own >= 0.5, "shared": draw >= 0.5}) == ("own", "shared"), (how, seed)


def test_streams_of_their_own_are_left_alone():
    for seed in SEEDS:
        masks = {place: drawn(1000 * seed + number) >= 0.5 for number, place in enumerate("abc")}
        assert related(masks) is None, seed


def test_numbers_that_come_back_in_a_later_step_are_found():
    draw = drawn(1)
    draw[3::2] = draw[2:-1:2].flip(1)
    assert related({"own": draw >= 0.5}) == ("own", "own")
