"""The device on which router loads are counted."""

import torch
from shardlab.hybrid.sums import forget_loads
from shardlab.model.moe import MoE

from tests.shardlab.hybrid.five_axes import EXPERTS


def test_a_count_begins_on_the_device_of_its_layer():
    """A layer moved to a GPU has had no forward there yet. The meta device takes the GPU's place."""
    layer = MoE(EXPERTS).to("meta")
    forget_loads([layer])
    assert layer.load_of_step.device == torch.device("meta")
