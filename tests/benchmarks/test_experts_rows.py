"""The contestants of the benchmark compute the same layer: their outputs are equal in every step, or it raises."""

import sys
from dataclasses import replace

import pytest
import shardlab
from shardlab.model.router import Choice

from benchmarks import experts

TINY = experts.Shape(replace(experts.CONFIG, hidden=16, width=16), tokens=8)


@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core is built for neither")
def test_all_contestants_compute_the_same_layer():
    for taken in shardlab.run(experts.layer_race, TINY, 2, ranks=2, transport="gloo", timeout=150):
        assert {"ours", "Megatron, alltoall", "Megatron, allgather"} <= taken.keys()
        assert all(len(steps) == 2 for steps in taken.values())


def test_dispatch_and_levels_are_measured():
    for taken in shardlab.run(experts.exchange_race, TINY, 2, ranks=2, transport="gloo", timeout=60):
        assert taken.keys() == {"ours", experts.MESSAGES, experts.COPIED}
    layer = replace(experts.NODES, hidden=16, width=16, choice=Choice(8, 2, groups=2, groups_per_token=1))
    nodes = TINY._replace(layer=layer)
    for taken in shardlab.run(experts.level_race, nodes, 2, ranks=4, transport="gloo", timeout=60):
        assert taken.keys() == {"ours", "one level"}
