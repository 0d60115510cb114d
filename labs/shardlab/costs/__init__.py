"""One function per formula: pure Python that imports no torch, each with its source in the docstring."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    activations=("Saved", "layer_activation_bytes_exactly", "layer_activation_tensors"),
    context=(
        "context_bytes",
        "extra_kv_blocks",
        "imbalance",
        "kv_bytes",
        "least_tokens_to_hide",
        "pairs_of",
        "ring_step",
        "ring_strips",
        "two_level_context_bytes",
        "ulysses_bytes",
        "ulysses_sends_less",
    ),
    experts=(
        "dropped_share",
        "exchange_bytes",
        "expert_state_bytes",
        "expert_tensor_bytes",
        "fullest_expert",
        "layer_exchange_bytes",
        "nodes_of_token",
        "split_expert_bytes",
        "tokens_first",
        "two_level_bytes",
    ),
    hardware=("ACCELERATORS", "Accelerator", "GIB", "slowest_link"),
    layout=("Layout", "check_layout", "check_world"),
    machines=("find_accelerator",),
    memory=("MemoryBytes", "memory_of_stage", "peak_memory"),
    memory_states=("parameters_on_stage", "shard_elements", "state_bytes", "zero_state_bytes"),
    model=("num_parameters",),
    model_file=("load_model",),
    model_zoo=("ZOO", "find_model"),
    planning=("Search", "plan"),
    zero_plus_plus=("plus_bytes", "quantized_bytes"),
)
