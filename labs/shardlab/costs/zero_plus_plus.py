"""What ZeRO++ sends (2306.10209, section 3): numbers of 8 bits in blocks, and gathers that stay within a node."""

from shardlab.costs.memory_states import shard_elements

BLOCK = 256  # numbers that share one scale of 4 bytes


def quantized_bytes(num_elements: int) -> int:
    """Bytes of a quantized tensor: a byte per number, the last block filled up, and 4 for each block's scale."""
    return -(-num_elements // BLOCK) * (BLOCK + 4)


def plus_bytes(
    num_ranks: int,
    num_elements: int,
    bytes_each: int,
    *,
    quantized_weights: bool = False,
    quantized_gradients: bool = False,
    ranks_per_node: int | None = None,
) -> float:
    """Bytes that a rank sends in a step for one unit: forward gather, backward gather, gradients.

    num_elements: with the padding for num_ranks. bytes_each: of a weight, and of a gradient. ranks_per_node: of hpZ, by
    default the backward gathers from all. Without any option it is ZeRO-3's 3(N-1)/N.
    """
    if num_ranks < 1 or num_elements % num_ranks:
        raise ValueError(f"{num_elements} numbers cannot be cut for {num_ranks} ranks: pad them to a multiple")
    shard = num_elements // num_ranks
    plain, quantized = shard * bytes_each, quantized_bytes(shard)
    forward = (num_ranks - 1) * (quantized if quantized_weights else plain)
    backward = forward
    if ranks_per_node is not None:
        part, _ = shard_elements(num_elements, ranks_per_node)
        backward = (ranks_per_node - 1) * part * bytes_each
    return forward + backward + (num_ranks - 1) * (quantized if quantized_gradients else plain)
