"""Saved on N ranks and loaded on M, bits are equal. A save that dies keeps the previous one. Mismatches are refused."""

import os
import signal
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel import checkpoint
from shardlab.data_parallel.zero import Zero2, Zero3

from tests.shardlab.data_parallel import twin


def engine(stage="zero3", **options):
    model = twin.new_model(**options)
    if stage == "zero3":
        return Zero3(model, torch.optim.AdamW, units=list(model.blocks), lr=0.05)
    return Zero2(model, torch.optim.AdamW, bucket_bytes=400, lr=0.05)


def train(zero, steps, num_parts=4):
    """Train on one rank's share of a batch that does not depend on the number of ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in steps:
        zero.zero_grad()
        twin.loss_of(zero.module, *(twin.own_part(t, rank, size) for t in twin.batch(step, num_parts))).backward()
        zero.step()


def weights_and_states(zero):
    """Whole weights by name, and each vector's whole masters and moments without padding."""
    found = zero.full_parameters()
    if not found:
        found = {name: parameter.detach().clone() for name, parameter in zero.module.named_parameters()}
    for number, vector in enumerate(zero.vectors):
        for name, value in {"master": vector.master.detach(), **zero.local.state[vector.master]}.items():
            if value.dim():
                whole = torch.empty(dist.get_world_size() * vector.shard_elements, dtype=value.dtype)
                dist.all_gather_single(whole, value)
                value = whole[: vector.num_elements]  # noqa: PLW2901
            found[f"{number}.{name}"] = value
    return found


def save_and_go_on(stage, folder):
    zero = engine(stage)
    train(zero, range(3))
    checkpoint.save(zero, folder, step=3)
    saved = weights_and_states(zero)
    train(zero, range(3, 6))
    return saved, weights_and_states(zero)


def load_and_go_on(stage, folder):
    zero = engine(stage)
    assert checkpoint.load(zero, checkpoint.latest(folder)) == 3
    loaded = weights_and_states(zero)
    train(zero, range(3, 6))
    return loaded, weights_and_states(zero)


def same_bits(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_training_goes_on_to_the_bit(stage, tmp_path):
    (saved, after), _ = shardlab.run(save_and_go_on, stage, str(tmp_path), ranks=2, timeout=60)
    for loaded, after_loading in shardlab.run(load_and_go_on, stage, str(tmp_path), ranks=2, timeout=60):
        assert same_bits(saved, loaded)
        assert same_bits(after, after_loading)


@pytest.mark.parametrize(("save_on", "load_on"), [(4, 2), (2, 3), (1, 4)])
def test_other_numbers_of_ranks_load_the_same_bits(save_on, load_on, tmp_path):
    saved, _ = shardlab.run(save_and_go_on, "zero3", str(tmp_path), ranks=save_on, timeout=60)[0]
    for loaded, _ in shardlab.run(load_and_go_on, "zero3", str(tmp_path), ranks=load_on, timeout=60):
        assert same_bits(saved, loaded)


def die_while_saving(folder):
    zero = engine()
    train(zero, range(2))
    checkpoint.save(zero, folder, step=2)
    train(zero, range(2, 4))
    if dist.get_rank() == 1:
        write = os.fsync
        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL) or write(file)
    checkpoint.save(zero, folder, step=4)


def load_latest(folder):
    zero = engine()
    return checkpoint.load(zero, checkpoint.latest(folder))


def test_a_rank_killed_in_the_middle_leaves_the_checkpoint_before(tmp_path):
    with pytest.raises(shardlab.RanksFailed):
        shardlab.run(die_while_saving, str(tmp_path), ranks=2, timeout=30)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["step-00000002"]
    assert shardlab.run(load_latest, str(tmp_path), ranks=2, timeout=60) == [2, 2]


def try_to_load(folder, options):
    zero = engine(**options)
    before = weights_and_states(zero)
    try:
        checkpoint.load(zero, checkpoint.latest(folder))
    except ValueError as error:
        return str(error), same_bits(before, weights_and_states(zero))
    return "loaded", False


@pytest.mark.parametrize(
    ("harm", "options", "words"),
    [
        (None, {"with_unused": True}, "belongs to another model"),
        (None, {"stage": "zero2"}, "another model or layout"),
        ("short", {}, "truncated"),
        ("lost", {}, "there is no complete checkpoint"),
        ("garbled", {}, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_on_every_rank_and_changes_nothing(harm, options, words, tmp_path):
    shardlab.run(save_and_go_on, "zero3", str(tmp_path), ranks=2, timeout=60)
    folder = Path(tmp_path, "step-00000003")
    data = next(folder.glob("*.distcp"))
    if harm == "short":
        data.write_bytes(data.read_bytes()[:-100])
    if harm == "lost":
        (folder / checkpoint.CONTENTS).unlink()
    if harm == "garbled":
        (folder / checkpoint.CONTENTS).write_text("{")
    for sentence, untouched in shardlab.run(try_to_load, str(tmp_path), options, ranks=2, timeout=60):
        assert words in sentence
        assert untouched
