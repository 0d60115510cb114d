"""Training gives the same losses on every mesh, and continues after a stop as if it had not happened."""

import os
import signal
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.ranks.run import RanksFailed
from shardlab.train import latest
from shardlab.train.by_step import sequence_numbers
from shardlab.train.hook import Hook
from shardlab.train.loop import Training

from tests.shardlab.train.small import EXPERTS, recipe, train_quietly, trained

MESHES = [
    ({"dp": 2}, {"zero": 1}),
    ({"tp": 2}, {"sequence_parallel": True}),
    ({"pp": 2}, {"schedule": "zbv", "zero": 1}),
    ({"cp": 2}, {"zero": 3}),
    ({"dp": 2, "pp": 2}, {"zero": 2}),
    ({"cp": 2, "tp": 2}, {"recompute": "full"}),
]


def losses(one, ranks, **options):
    by_rank = trained(one, ranks, **options)
    assert all(told.losses == by_rank[0].losses for told in by_rank)  # every rank knows the same losses
    return list(by_rank[0].losses.values())


@pytest.fixture(scope="module")
def alone():
    return losses(recipe(), 1)


@pytest.mark.parametrize(("mesh", "step"), MESHES, ids=str)
def test_a_mesh_trains_as_one_rank_does(alone, mesh, step):
    one = recipe(mesh, step=step)
    ranks = 2 if sum(size > 1 for size in mesh.values()) == 1 else 4
    assert losses(one, ranks) == pytest.approx(alone, abs=1e-5)
    assert len(alone) == 4 and alone[-1] < alone[0] - 0.05


def test_experts_train_on_ranks_as_on_one():
    alone = losses(recipe(experts=EXPERTS), 1)
    both = losses(recipe({"dp": 2, "ep": 2}, experts=EXPERTS, step={"zero": 1}), 2)
    assert both == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "step"),
    [
        ({"dp": 2, "pp": 2, "tp": 2}, {"zero": 1, "sequence_parallel": True}),
        ({"pp": 2, "cp": 2, "tp": 2, "ep": 4, "etp": 1}, {"schedule": "zbv", "sequence_parallel": True}),
    ],
    ids=str,
)
def test_eight_ranks_train_as_one_does(mesh, step):
    experts = EXPERTS if "ep" in mesh else {}
    assert losses(recipe(mesh, step=step, experts=experts), 8) == pytest.approx(
        losses(recipe(experts=experts), 1), abs=1e-5
    )


# ---- stop and resume -------------------------------------------------------------------------------------------------


class Kept(Hook):
    """Writes what a rank holds at the end to files."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def on_end(self, training, row):
        if row.step == 4:
            numbers = [one.detach().clone() for one in training.trainer.masters()]
            torch.save(numbers, self.folder / f"rank-{training.rank}.pt")


def kept(folder, ranks):
    return [one for rank in range(ranks) for one in torch.load(Path(folder, f"rank-{rank}.pt"))]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, asynchronous):
    mesh = {"dp": 2, "pp": 2}
    model, step = {"dropout": 0.2}, {"zero": 1}
    for name in "ab":
        (tmp_path / name).mkdir()
    unbroken = losses(recipe(mesh, model=model, step=step), 4, hooks=[Kept(tmp_path / "a")])
    files = {"folder": str(tmp_path / "c"), "asynchronous": asynchronous}
    first = losses(recipe(mesh, model=model, step=step, checkpoints=files, run={"until": 2}), 4)
    second = trained(recipe(mesh, model=model, step=step, checkpoints=files), 4, hooks=[Kept(tmp_path / "b")])
    assert second[0].resumed == 2
    assert first + list(second[0].losses.values()) == unbroken
    pairs = zip(kept(tmp_path / "a", 4), kept(tmp_path / "b", 4), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


OTHER = [
    ({"dp": 2, "tp": 2}, {"zero": 1, "sequence_parallel": True}, {"pp": 2, "cp": 2}, {"schedule": "zbv"}),
    ({"pp": 4}, {}, {}, {}),
    ({}, {}, {"dp": 4}, {"zero": 3}),
    ({"dp": 4}, {"zero": 3}, {"tp": 4}, {"split_vocabulary": True}),
]


@pytest.mark.parametrize(("mesh", "step", "other_mesh", "other_step"), OTHER, ids=str)
def test_a_run_goes_on_on_another_mesh(tmp_path, alone, mesh, step, other_mesh, other_step):
    files = {"folder": str(tmp_path)}
    first = recipe(mesh, step=step, checkpoints=files, run={"until": 2})
    second = recipe(other_mesh, step=other_step, checkpoints=files)
    told = losses(first, 4 if mesh else 1) + losses(second, 4 if other_mesh else 1)
    assert told == pytest.approx(alone, abs=1e-5)


def test_experts_go_on_on_another_mesh(tmp_path):
    files = {"folder": str(tmp_path)}
    unbroken = losses(recipe(experts=EXPERTS), 1)
    first = recipe({"dp": 2, "ep": 2}, experts=EXPERTS, step={"zero": 1}, checkpoints=files, run={"until": 2})
    second = recipe({"tp": 2, "pp": 2, "ep": 2, "etp": 1}, experts=EXPERTS, checkpoints=files)
    assert losses(first, 2) + losses(second, 4) == pytest.approx(unbroken, abs=1e-5)


class Seen(Hook):
    """Records the tokens of the sequences that a rank sees in each step."""

    def on_begin(self, training):
        plain = training.trainer.step
        training.seen = []

        def step(tokens, labels):
            training.seen.append(tokens.tolist())
            return plain(tokens, labels)

        training.trainer.step = step


def seen(one, hooks):
    training = Training(one, hooks=hooks, quiet=True)
    training.resume()
    for hook in hooks:
        hook.on_begin(training)
    while training.done < one.run.steps:
        training.one_step()
    if training.saver is not None:
        training.saver.finish()
    return training.seen


def test_meshes_and_a_resumed_run_see_the_same_batches(tmp_path):
    def together(by_rank):
        return [sorted(row for rows in step for row in rows) for step in zip(*by_rank, strict=True)]

    [of_one] = shardlab.run(seen, recipe(), [Seen()], ranks=1, timeout=60)
    of_two = shardlab.run(seen, recipe({"dp": 2}), [Seen()], ranks=2, timeout=60)
    assert together([of_one]) == together(of_two)
    assert of_two[0] != of_two[1]
    trained(recipe(checkpoints={"folder": str(tmp_path)}, run={"until": 2}), 1)
    [later] = shardlab.run(seen, recipe(checkpoints={"folder": str(tmp_path)}), [Seen()], ranks=1, timeout=60)
    assert later == of_one[2:]
    assert (
        len({*sequence_numbers(0, 0, batch=8, num_sequences=50), *sequence_numbers(0, 1, batch=8, num_sequences=50)})
        == 16
    )


# ---- failures --------------------------------------------------------------------------------------------------------


class Killed(Hook):
    """Kills the rank with SIGKILL while it writes its files for the checkpoint after `step`."""

    def __init__(self, step, rank):
        self.step, self.rank = step, rank

    def on_begin(self, training):
        plain = training.saver._write

        def write(under, plan, writing):
            if under.step == self.step and training.rank == self.rank:
                (under.target.with_name(f".{under.target.name}.part") / "__1_0.distcp").write_bytes(b"half of it")
                os.kill(os.getpid(), signal.SIGKILL)
            plain(under, plan, writing)

        training.saver._write = write


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_while_it_saves_costs_nothing_before(tmp_path, rank):
    one = recipe({"dp": 2}, checkpoints={"folder": str(tmp_path), "every": 1})
    unbroken = losses(recipe({"dp": 2}), 2)
    with pytest.raises(RanksFailed):
        trained(one, 2, hooks=[Killed(3, rank)])
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        ".step-00000003.part",
        "step-00000001",
        "step-00000002",
    ]
    assert latest(tmp_path) == tmp_path / "step-00000002"
    by_rank = trained(one, 2)
    assert by_rank[0].resumed == 2 and list(by_rank[0].losses.values()) == unbroken[2:]
    assert not list(tmp_path.glob(".step-*"))


class Poisoned(Hook):
    """Makes a gradient NaN on the second rank in the second step, with a hook on its first block."""

    def on_begin(self, training):
        self.step = 0
        for part in training.trainer.parts.values():
            for block in part.blocks.values():
                block.norm_1.register_full_backward_hook(self.poison)
        self.rank = training.rank

    def on_step(self, training, step):
        self.step = step

    def poison(self, module, gradients_in, gradients_out):
        if self.step == 2 and self.rank == dist.get_world_size() - 1:
            return tuple(None if one is None else one * torch.nan for one in gradients_in)
        return None


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_step_that_is_no_number_is_left_out(zero):
    skipping = recipe({"dp": 2}, step={"zero": zero}, survival={"on_not_finite": "skip"})
    for told in trained(skipping, 2, hooks=[Poisoned()]):
        assert told.skipped == [2] and sorted(told.losses) == [1, 3, 4]


def test_or_ends_the_training():
    with pytest.raises(RanksFailed, match="No weight was changed"):
        trained(recipe(), 1, hooks=[Poisoned()])


def refused(one):
    with pytest.raises(ValueError, match=r"use|give") as caught:
        train_quietly(one, [])
    return str(caught.value)


def test_what_ranks_cannot_train_is_refused_alike():
    told = shardlab.run(refused, recipe({"tp": 2}), ranks=3, timeout=30)
    assert len(set(told)) == 1 and "use 2 ranks" in told[0]
    told = shardlab.run(refused, recipe({"pp": 2}, step={"schedule": "zb-h1", "zero": 2}), ranks=2, timeout=30)
    assert len(set(told)) == 1 and "use zero = 0 or 1" in told[0]
