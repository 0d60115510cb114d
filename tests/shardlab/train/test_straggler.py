"""Only the rank that works longest for its part is named: not a waiting rank, not a machine that was busy once."""

import time

import pytest
import shardlab
from shardlab.train.heartbeat import LOOKS, Lookout, slowest
from shardlab.train.hook import Hook
from shardlab.train.loop import train

from tests.shardlab.train.small import recipe


@pytest.mark.parametrize(
    ("working", "stages", "found"),
    [
        ([1.0, 3.0], [0, 0], (1, 3.0)),
        ([1.0, 1.0, 2.0, 1.0], [0, 0, 0, 0], (2, 2.0)),
        ([1.0, 1.0, 4.0, 4.0], [0, 0, 1, 1], 1.0),  # different stages have different work
        ([1.0, 2.0, 4.0, 4.0], [0, 0, 1, 1], (1, 2.0)),
        ([1.0, 3.0, 1.0], [0, 1, 2], (1, 3.0)),  # no peers, so compared with all others
        ([5.0], [0], None),
    ],
)
def test_slowest_for_its_part(working, stages, found):
    told = slowest(working, stages)
    assert (told[1] if isinstance(found, float) else told) == found


class Sleeps(Hook):
    """Makes one rank sleep inside the given steps."""

    def __init__(self, rank, steps):
        self.rank, self.steps = rank, steps

    def on_begin(self, training):
        model = next(iter(training.trainer.parts.values()))
        model.register_forward_pre_hook(lambda *_: self._sleep(training))

    def _sleep(self, training):
        if training.rank == self.rank and training.done + 1 in self.steps:
            time.sleep(0.4)


def said(*steps):
    """What is reported about stragglers if each rank, starting with the last, sleeps in some steps."""
    lines = []
    one = recipe({"dp": 2}, run={"steps": 8}, step={"batch": 8, "microbatches": 2})

    class Listens(Hook):
        def on_begin(self, training):
            training.logs.say = lines.append

    asleep = [Sleeps(1 - number, some) for number, some in enumerate(steps)]
    train(one, hooks=[Listens(), Lookout(1, ends=False), *asleep], quiet=True)
    return [line for line in lines if "straggler" in line]


def test_a_rank_that_sleeps_three_steps_in_a_row_is_named():
    for lines in shardlab.run(said, [3, 4, 5], ranks=2, timeout=60, observe=False):
        assert lines[0].startswith("rank 1 (dp 1) is a straggler") and "in step 5" in lines[0]


def test_fewer_looks_are_not_enough():
    assert LOOKS == 3
    then_the_other = [4, 8]  # otherwise a busy machine could cause a third slow step
    assert shardlab.run(said, [2, 3, 6, 7], then_the_other, ranks=2, timeout=60, observe=False) == [[], []]
