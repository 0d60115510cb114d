"""Week 15's own trainer: planted public bugs show only in gradients, and a killed run continues on another mesh."""

from typing import Any

import pytest
import shardlab
import torch
from shardlab.own import hunt, saving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
GUILTY = {hunt.NORMS: "tp", hunt.EXPERTS: "ep", hunt.MEANS: "cp", hunt.LAST: "pp", hunt.REPLICAS: "dp"}
STEPS, EVERY = 8, 4


def world(given: dict[str, Any]) -> int:
    return torch.Size([given.get(axis, 1) for axis in ("tp", "cp", "ep", "dp", "pp")]).numel()


@pytest.fixture(scope="module")
def healthy():
    (found,) = shardlab.run(hunt.step_with, hunt.NOTHING, {}, ranks=1)
    return found


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


@pytest.mark.parametrize("fault", hunt.FAULTS)
def test_a_planted_bug_changes_gradients_on_one_axis_and_not_the_loss(fault, healthy):
    innocent = "pp" if fault != hunt.LAST else "tp"
    for axis in (GUILTY[fault], innocent):
        found = shardlab.run(hunt.step_with, fault, {axis: 2}, ranks=2)
        off = largest_difference(hunt.joined(found), healthy.gradients)
        assert found[0].loss == pytest.approx(healthy.loss, abs=1e-5)
        assert (off > 1e-4) if axis == GUILTY[fault] else (off < 1e-5)


def test_an_unknown_bug_is_refused():
    with pytest.raises(shardlab.RanksFailed, match="cannot be planted: use one of"):
        shardlab.run(hunt.step_with, "gremlins", {}, ranks=1)


MESHES: list[tuple[dict[str, Any], tuple[int, int], dict[str, Any]]] = [
    ({"dp": 2, "tp": 2}, (2, 7), {"pp": 2}),
    ({"dp": 2, "ep": 2}, (1, 6), {"tp": 2}),
    ({"pp": 2, "cp": 2, "schedule": "interleaved"}, (3, 6), {"dp": 2, "zero": 1}),
    ({"dp": 4, "zero": 3, "experts": 0}, (3, 6), {"tp": 2, "experts": 0}),
]


@pytest.mark.parametrize(("first", "killed", "then"), MESHES)
def test_a_killed_run_continues_on_another_mesh_with_one_processs_losses(first, killed, then, tmp_path):
    given = {"lr": 0.3, "experts": first.get("experts", 4)}
    with pytest.raises(shardlab.RanksFailed):
        shardlab.run(saving.train_on, given | first, tmp_path, STEPS, EVERY, killed, ranks=world(first), timeout=90)
    assert saving.losses_in(tmp_path).keys() == set(range(1, killed[1]))
    begun = shardlab.run(saving.train_on, given | then, tmp_path, STEPS, EVERY, ranks=world(then), timeout=90)
    assert set(begun) == {EVERY}
    whole = tmp_path / "one process"
    whole.mkdir()
    shardlab.run(saving.train_on, given, whole, STEPS, EVERY, ranks=1, timeout=90)
    assert saving.losses_in(tmp_path) == pytest.approx(saving.losses_in(whole), abs=1e-5)


@pytest.mark.parametrize("left", ["files of more ranks", "a broken folder", "a stray file"])
def test_what_a_killed_save_leaves_behind_costs_no_later_checkpoint(left, tmp_path):
    shardlab.run(saving.train_on, {"dp": 4}, tmp_path, 2, 1, ranks=4)
    newest = tmp_path / "step-2"
    if left == "files of more ranks":
        newest.rename(tmp_path / "step-2.tmp")
        (tmp_path / "step-2.tmp" / saving.MANIFEST).unlink()
    elif left == "a broken folder":
        (newest / "rank-3.json").write_text("[]")
    else:
        (newest / "rank-9.json").write_text("[]")
    begun = 2 if left == "a stray file" else 1
    for steps, already in ((2, begun), (3, 2), (3, 3)):
        found = shardlab.run(saving.train_on, {"tp": 2}, tmp_path, steps, 1, ranks=2)
        assert found == [already, already]
    whole = tmp_path / "one process"
    whole.mkdir()
    shardlab.run(saving.train_on, {}, whole, 3, 1, ranks=1)
    assert saving.losses_in(tmp_path) == pytest.approx(saving.losses_in(whole), abs=1e-5)


def test_another_models_checkpoint_and_adams_states_are_refused(tmp_path):
    shardlab.run(saving.train_on, {}, tmp_path, 1, 1, ranks=1)
    with pytest.raises(shardlab.RanksFailed, match="it was saved by a different model"):
        shardlab.run(saving.train_on, {"layers": 5}, tmp_path, 2, 1, ranks=1)
    with pytest.raises(shardlab.RanksFailed, match="train with sgd instead of adam"):
        shardlab.run(saving.train_on, {"optimizer": "adam", "lr": 0.01}, tmp_path, 2, 1, ranks=1)
