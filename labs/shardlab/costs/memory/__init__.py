"""Bytes that a rank holds: states, activations, and what frameworks and devices add."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    activations=("Saved", "layer_activation_bytes_exactly", "layer_activation_tensors"),
    stage=("MemoryBytes", "memory_of_stage", "peak_memory"),
    states=("parameters_on_stage", "shard_elements", "state_bytes", "zero_state_bytes"),
)
