"""Random legal pipelines compared with one process: gradients, updated weights and losses."""

import random

import pytest
import shardlab
from shardlab.pipeline_parallel.check import problems
from shardlab.pipeline_parallel.check_messages import message_problems
from shardlab.pipeline_parallel.communication import communicate, receive_early

from tests.shardlab.generated.schedules import compare_pipelines, draw_pipeline, placement, random_schedule

CASES = [(ranks, range(first, first + 30)) for ranks in (2, 3, 4) for first in (0, 30)]
EXACT = 1e-5  # some stages compute in single precision


@pytest.mark.parametrize(("ranks", "seeds"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_a_random_pipeline_trains_as_one_process(ranks, seeds):
    by_rank = shardlab.run(compare_pipelines, list(seeds), ranks=ranks, timeout=150)
    for seed in seeds:
        found = [of_rank[seed] for of_rank in by_rank]
        assert max(worst for worst, *_ in found) < EXACT, (ranks, seed)
        losses = [sum(of_step) for of_step in zip(*(mine for _, mine, _ in found), strict=True)]
        assert losses == pytest.approx(found[0][2], rel=1e-5), (ranks, seed)


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_messages_of_any_legal_order_match_as_they_are_posted(ahead):
    """The program that runs, with moved receives: both ends list messages in the same order, and no rank hangs."""
    for seed in range(100):
        draw = random.Random(seed)
        ranks = draw.randint(1, 5)
        schedule = random_schedule(draw, ranks, placement(draw, ranks), draw.randint(1, 6))
        assert problems(schedule) == []
        woven = communicate(schedule)
        program = [receive_early(steps, rank, num_slots=ahead) for rank, steps in enumerate(woven)]
        assert message_problems(program, rendezvous=ahead == 0) == [], (seed, ahead)


def test_cases_are_of_every_sort():
    """The generator covers everything it is meant to cover."""
    cases = [draw_pipeline(seed, ranks) for ranks, seeds in CASES for seed in seeds]
    assert len(cases) == 180
    assert len({sort for case in cases for sort in case.sorts}) == 19
    assert sum(case.tied for case in cases) >= 5 and sum(len({*map(len, case.batches)}) > 1 for case in cases) > 40
