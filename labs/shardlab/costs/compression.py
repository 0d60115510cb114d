"""Bytes of a compressed gradient: the message of each compression method, and when sending messages around pays off.

n = num_elements. A sum of compressed gradients is not compressed, so messages are all-gathered instead of all-reduced:
each rank sends its own message N-1 times (traffic.ring_all_gather_bytes of N messages).
"""

from shardlab.costs import traffic
from shardlab.costs.memory.states import shard_elements

SCALE_BYTES = 4  # one float32
BLOCK = 256  # numbers that share one scale in ZeRO++
KEPT_BYTES = 8  # an int32 index and a float32 value


def kept_elements(num_elements: int, share: float) -> int:
    """How many of n numbers to keep: `share` of them, rounded, at least one. ValueError for a share outside (0, 1]."""
    if not 0 < share <= 1:
        raise ValueError(f"cannot keep a share of {share}: use more than 0 and at most 1")
    return max(1, round(share * num_elements))


def top_k_bytes(num_kept: int) -> int:
    """8k: an index and a value for each number kept."""
    return KEPT_BYTES * num_kept


def one_bit_bytes(num_elements: int) -> int:
    """n/8 bytes of signs plus two scales (Seide et al., Interspeech 2014)."""
    return packed_bytes(num_elements, 1) + 2 * SCALE_BYTES


def terngrad_bytes(num_elements: int) -> int:
    """n/4 bytes, as two bits encode -1, 0 or 1, plus one scale (1705.07878, section 3)."""
    return packed_bytes(num_elements, 2) + SCALE_BYTES


def qsgd_bytes(num_elements: int, levels: int, block: int) -> int:
    """n codes of a sign and a level from 0 to `levels`, plus a norm per block. Plain bits instead of the paper's Elias
    codes (1610.02132, section 3.1)."""
    return packed_bytes(num_elements, qsgd_bits(levels)) + SCALE_BYTES * -(-num_elements // block)


def qsgd_bits(levels: int) -> int:
    """Bits of a sign and a level from 0 to `levels`. ValueError unless levels is 1 to 127, to fit a code in a byte."""
    if not 1 <= levels <= 127:
        raise ValueError(f"{levels} levels and a sign do not fit a byte: use 1 to 127")
    return 1 + levels.bit_length()


def packed_bytes(num_elements: int, bits: int) -> int:
    """Bytes of n packed codes of `bits` bits each, rounded up to whole bytes."""
    return -(-num_elements * bits // 8)


def sent_bytes(num_ranks: int, message_bytes: float) -> float:
    """(N-1) * m: bytes per rank to all-gather messages of m bytes."""
    return traffic.ring_all_gather_bytes(num_ranks, num_ranks * message_bytes)


def break_even_ranks(num_bytes: float, message_bytes: float) -> float:
    """2S/m: the number of ranks at which (N-1)m equals an all-reduce of the S uncompressed bytes, 2(N-1)/N S."""
    return 2 * num_bytes / message_bytes


# ---- ZeRO++ (2306.10209, section 3): 8-bit numbers in blocks, and gathers that stay within a node ----


def quantized_bytes(num_elements: int) -> int:
    """Bytes of a quantized tensor, padded to whole blocks: one byte per number and 4 for each block's scale."""
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
    """Bytes that a rank sends per step for one unit: forward gather, backward gather and gradients.

    num_elements: including padding for num_ranks. bytes_each: bytes per weight and per gradient. ranks_per_node: for
    hpZ; by default the backward gathers from all ranks. With no option set this is ZeRO-3's 3(N-1)/N.
    """
    if num_ranks < 1 or num_elements % num_ranks:
        raise ValueError(f"{num_elements} numbers cannot be split over {num_ranks} ranks: pad to a multiple")
    shard = num_elements // num_ranks
    plain, quantized = shard * bytes_each, quantized_bytes(shard)
    forward = (num_ranks - 1) * (quantized if quantized_weights else plain)
    backward = forward
    if ranks_per_node is not None:
        part, _ = shard_elements(num_elements, ranks_per_node)
        backward = (ranks_per_node - 1) * part * bytes_each
    return forward + backward + (num_ranks - 1) * (quantized if quantized_gradients else plain)
