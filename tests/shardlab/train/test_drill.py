"""A drill: one rank is killed before a step, the others are notified, and the earlier checkpoint exists."""

import pytest
import shardlab
from shardlab.train import KillRank, from_tables, new_folder, train


def recipe_in(folder):
    tables = {
        "model": {"layers": 1, "hidden": 8, "heads": 2, "sequence": 8, "tied": False},
        "mesh": {"dp": 2},
        "step": {"batch": 2},
        "run": {"steps": 6, "folder": str(folder)},
        "checkpoints": {"every": 2},
        "log": {"tensorboard": False, "figure": False, "measure": 0},
    }
    return from_tables(tables)


def test_a_killed_rank_leaves_earlier_checkpoints_whole():
    folder = new_folder()
    hooks = [KillRank(1, step=5)]
    with pytest.raises(shardlab.RanksFailed, match="rank 1"):
        shardlab.run(lambda: train(recipe_in(folder), hooks=hooks, quiet=True), ranks=2, timeout=60)
    saved = {path.name for path in (folder / "checkpoints").iterdir()}
    assert {one.lstrip("step-0") for one in saved if one.startswith("step-")} >= {"2"}
    assert not any("6" in name for name in saved)  # the checkpoint after step 4 may still be in progress


def test_each_folder_is_new_and_empty():
    first, second = new_folder(), new_folder()
    assert first != second and not list(first.iterdir())


@pytest.mark.parametrize(("rank", "step"), [(-1, 3), (0, 0)])
def test_what_no_training_has_cannot_be_killed(rank, step):
    with pytest.raises(ValueError, match="ranks count from 0, steps from 1"):
        KillRank(rank, step=step)
