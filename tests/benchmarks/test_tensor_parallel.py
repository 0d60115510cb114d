"""The contestants of the benchmark train the same block: their outputs are equal step after step, or it raises."""

import sys

import pytest
import shardlab
from shardlab.model.gpt import GPTConfig

from benchmarks import tensor_parallel

TINY = GPTConfig(layers=1, hidden=16, heads=4, sequence=8, flash=False)


@pytest.mark.slow  # each rank imports Megatron
@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="megatron-core is built for neither")
def test_all_contestants_train_the_same_block():
    for seconds in shardlab.run(tensor_parallel.race, TINY, 2, "cpu", ranks=2, transport="gloo", timeout=150):
        names = {f"{name}, {split}" for name in ("ours", "DTensor", "Megatron", "messages") for split in ("TP", "SP")}
        assert seconds.keys() == names
        assert all(len(steps) == 2 for steps in seconds.values())
