"""Costs of context parallelism: bytes to reach other ranks' keys, when sends hide, work and memory.

Symbols: c ranks, s tokens per sequence, b sequences, T = b s/c tokens per rank, h total width of the queries, h_kv
total width of the keys (and of the values), a_kv key-value heads, F FLOP/s, B bytes/s. A multiply-add counts 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

ContextWay = Literal["ring", "gathered", "ulysses"]
Documents = Sequence[int]


class ContextBytes(NamedTuple):
    """Bytes that a rank sends for one layer's attention on one microbatch."""

    forward: float
    backward: float

    @property
    def both(self) -> float:
        return self.forward + self.backward


def kv_bytes(num_ranks: int, tokens: float, kv_width: float, *, bytes_each: float = 2) -> float:
    """(c-1) * 2 T h_kv numbers: keys and values of every other rank arrive by a ring (arXiv 2310.01889) or an
    all-gather (arXiv 2407.21783, section 3.3.2). ValueError for fewer than one rank or a negative size.
    """
    _check(num_ranks, tokens, kv_width)
    return (num_ranks - 1) * 2 * bytes_each * tokens * kv_width


def ulysses_bytes(
    num_ranks: int,
    tokens: float,
    query_width: float,
    kv_width: float,
    *,
    kv_heads: int | None = None,
    bytes_each: float = 2,
) -> float:
    """(c-1)/c * 2 T (h + h_kv) numbers: all-to-alls of q, k, v and the result (arXiv 2309.14509, section 3.2).

    kv_heads: with fewer than c heads, each is sent c / a_kv times; None counts each once.
    """
    _check(num_ranks, tokens, kv_width)
    copies = max(1.0, num_ranks / kv_heads) if kv_heads else 1.0
    return (num_ranks - 1) / num_ranks * 2 * bytes_each * tokens * (query_width + copies * kv_width)


def context_bytes(
    way: ContextWay,
    num_ranks: int,
    tokens: float,
    query_width: float,
    kv_width: float,
    *,
    kv_heads: int | None = None,
    bytes_each: float = 2,
    sum_bytes: float = 4,
) -> ContextBytes:
    """Bytes sent in forward and backward. Ulysses sends the same in both; the others send keys and values again, plus
    their gradients as sums of `sum_bytes` per number.
    """
    if way == "ulysses":
        once = ulysses_bytes(num_ranks, tokens, query_width, kv_width, kv_heads=kv_heads, bytes_each=bytes_each)
        return ContextBytes(once, once)
    once = kv_bytes(num_ranks, tokens, kv_width, bytes_each=bytes_each)
    return ContextBytes(once, once + kv_bytes(num_ranks, tokens, kv_width, bytes_each=sum_bytes))


class TwoLevelBytes(NamedTuple):
    """Bytes that a rank sends within its inner group and to other inner groups."""

    inside: ContextBytes
    across: ContextBytes


def two_level_context_bytes(
    inner: int,
    outer: int,
    tokens: float,
    query_width: float,
    kv_width: float,
    *,
    kv_heads: int | None = None,
    bytes_each: float = 2,
    sum_bytes: float = 4,
) -> TwoLevelBytes:
    """Ulysses among `inner` ranks, then a ring of `outer` ranks with `inner` times the tokens and 1/inner of the width
    (arXiv 2405.07719, section 3). With fewer key-value heads than inner ranks, each head goes around several times.
    """
    copies = max(1.0, inner / kv_heads) if kv_heads else 1.0
    around = query_width / inner, kv_width * copies / inner
    return TwoLevelBytes(
        context_bytes("ulysses", inner, tokens, query_width, kv_width, kv_heads=kv_heads, bytes_each=bytes_each),
        context_bytes("ring", outer, inner * tokens, *around, bytes_each=bytes_each, sum_bytes=sum_bytes),
    )


def ulysses_sends_less(num_ranks: int, heads: int, kv_heads: int) -> bool:
    """Whether Ulysses' forward sends less than a ring's: (c-1) h_kv > (c-1)/c (h + h_kv), so c > 1 + h/h_kv.

    With fewer key-value heads than ranks, each is sent c/a_kv times: c (1 - 1/a_kv) > h/h_kv, never if a_kv = 1.
    """
    ring = kv_bytes(num_ranks, 1, kv_heads)
    return ulysses_bytes(num_ranks, 1, heads, kv_heads, kv_heads=kv_heads) < ring


# ---- time ------------------------------------------------------------------------------------------------------------


def least_tokens_to_hide(
    kv_share: float, *, flops: float, bandwidth: float, causal: bool = True, bytes_each: float = 2
) -> float:
    """Minimum tokens per rank for a ring to hide: s/c >= (h_kv/h) F/B, twice that for a balanced causal mask (bf16).

    From 4 n^2 h / F >= 2 n h_kv bytes_each / B; 2 n^2 h if causal (arXiv 2310.01889, section 3.2, assumes MHA without a
    mask). kv_share: h_kv/h. F/B is the accelerator's FLOP per byte sent.
    """
    return kv_share * flops / bandwidth * bytes_each * (1.0 if causal else 0.5)


# ---- work ------------------------------------------------------------------------------------------------------------


def pairs_of(chunks: Sequence[range], length: int, *, documents: Documents = (), causal: bool = True) -> int:
    """Number of scores of the queries at these positions: each sees its own document, up to itself if causal."""
    pairs = begin = 0
    for size in documents or (length,):
        for chunk in chunks:
            first = begin + (chunk.start - begin) % chunk.step if chunk.start < begin else chunk.start
            here = range(first, min(chunk.stop, begin + size), chunk.step)
            pairs += sum_of(here) - len(here) * (begin - 1) if causal else len(here) * size
        begin += size
    return pairs


def sum_of(numbers: range) -> int:
    """Sum of an arithmetic series."""
    return len(numbers) * (numbers[0] + numbers[-1]) // 2 if numbers else 0


def imbalance(
    chunks: Sequence[Sequence[range]], *, documents: Documents = (), causal: bool = True, length: int | None = None
) -> float:
    """Largest work of a rank over the mean: 2 - 1/c for equal causal pieces (if s >> c), 1 if balanced.

    chunks: the positions of every rank, as in `context_parallel.SequenceLayout`.
    """
    length = length or sum(len(chunk) for some in chunks for chunk in some)
    work = [pairs_of(some, length, documents=documents, causal=causal) for some in chunks]
    return max(work) * len(work) / sum(work)


# ---- memory ----------------------------------------------------------------------------------------------------------


def ring_strips(tokens: int) -> int:
    """Number of strips in which a ring's backward sends a block of T tokens: 512 tokens each, at least 2, at most 8.

    More strips need less memory on top of a block, but make messages smaller.
    """
    return max(2, min(8, tokens // 512))


def extra_kv_blocks(
    way: ContextWay,
    num_ranks: int,
    *,
    backward: bool = False,
    strips: int = 8,
    bytes_each: float = 2,
    sum_bytes: float = 4,
) -> float:
    """Extra memory compared with attention of T tokens on one rank, in blocks of 2 T h_kv numbers of `bytes_each`.

    A ring's forward holds two more blocks: the current one and the next. Its backward starts with the other ranks'
    blocks, in n strips, before the rank's own gradients exist: it holds keys and values of n + 1 strips and gradient
    sums of n + 1 strips (`sum_bytes` per number), minus the room of its own gradients. At the end the sums of its own
    block arrive, one block in addition to its own gradients. With two ranks no strip is passed on a second time.
    Gathered: keys and values of all ranks.
    """
    if way == "ulysses" or num_ranks == 1:
        return 0.0
    if way == "gathered":
        return float(num_ranks)
    if not backward:
        return min(2.0, num_ranks - 1.0)
    wider = sum_bytes / bytes_each
    return wider if num_ranks == 2 else max(wider, 1.0 + (1.0 + wider) / strips)


def _check(num_ranks: int, tokens: float, width: float) -> None:
    if num_ranks < 1 or tokens < 0 or width < 0:
        raise ValueError(
            f"{num_ranks} ranks, {tokens} tokens, a width of {width}: use 1 rank or more, and tokens and a width of "
            f"0 or more"
        )
