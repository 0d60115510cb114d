"""The answers of a course of one small week."""

from shardlab.own import blocks
from shardlab.own.blocks import Block

TIMES_TWO = "def ring_reduce_scatter(chunks, *, group):\n    return [2 * one for one in chunks]"
SUM = "def ring_all_gather(chunk, sizes, *, group):\n    return [chunk]"
USES = "def ring_all_reduce(tensor, *, group):\n    return ring_reduce_scatter(tensor, group=group)"


def course_answers() -> blocks.Blocks:
    scatter = Block((), (("ring_reduce_scatter", TIMES_TWO),), "aaaaaa")
    reduce = Block((), (("ring_all_gather", SUM), ("ring_all_reduce", USES)), "bbbbbb")
    return {"week01.ring-reduce-scatter": scatter, "week01.ring-all-reduce": reduce}
