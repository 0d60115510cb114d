"""The races of long contexts and of several axes run: ours and the peer's results agree, or they raise."""

import pytest
import shardlab
from shardlab.model.gpt import GPTConfig

from benchmarks import composed, long_context


def test_a_ring_and_ulysses_compute_what_their_peers_do():
    for pair in (long_context.rings, long_context.ulysses):
        shape = long_context.Shape(heads=2, width=16)
        for of_lengths in shardlab.run(long_context.races, pair, {64: 2, 128: 1}, shape, ranks=2, timeout=60):
            assert [[len(side) for side in times] for times in of_lengths] == [[2, 2], [1, 1]]


@pytest.mark.slow
def test_a_step_and_its_composition_have_equal_losses():
    tiny = GPTConfig(layers=4, hidden=16, heads=4, sequence=16, vocabulary=32, tied=False, rope=True)
    for layout in composed.LAYOUTS[:3:2]:
        for ours, theirs in shardlab.run(composed.race, layout, tiny, "cpu", ranks=layout.mesh.world, timeout=120):
            assert len(ours) == len(theirs) == composed.ROUNDS
