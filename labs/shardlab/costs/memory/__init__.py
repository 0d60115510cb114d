"""Bytes that a rank holds: states, activations, and what frameworks and devices add."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.memory import states
    from shardlab.costs.memory.activations import layer_activation_bytes_exactly
    from shardlab.costs.memory.stage import in_flight_layers, layer_activation_bytes, memory_of_stage, peak_memory
    from shardlab.costs.memory.states import parameters_on_stage, shard_elements, state_bytes, zero_state_bytes
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
