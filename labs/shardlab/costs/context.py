"""What context parallelism costs: bytes of each way to the keys of other ranks, when they hide, work and memory.

Symbols: c ranks, s tokens of a sequence, b sequences, T = b s/c tokens of a rank, h width of all queries, h_kv width of
all keys (and of all values), a_kv key-value heads, F FLOP/s, B bytes/s. A multiply-add counts 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

ContextWay = Literal["ring", "gathered", "ulysses"]
Documents = Sequence[int]


class ContextBytes(NamedTuple):
    """Bytes that a rank sends for one layer's attention of one microbatch."""

    forward: float
    backward: float

    @property
    def both(self) -> float:
        return self.forward + self.backward


def kv_bytes(num_ranks: int, tokens: float, kv_width: float, *, bytes_each: float = 2) -> float:
    """(c-1) * 2 T h_kv numbers: keys and values of every other rank come here, by a ring (arXiv 2310.01889) or by an
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
    """(c-1)/c * 2 T (h + h_kv) numbers: all-to-alls of q, k, v and of the result (arXiv 2309.14509, section 3.2).

    kv_heads: with fewer than c of them each is sent c / a_kv times; None counts each once.
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
    """What a forward and a backward send. Ulysses sends the same back; the others their keys and values once more, and
    the gradients of these as sums of `sum_bytes` a number.
    """
    if way == "ulysses":
        once = ulysses_bytes(num_ranks, tokens, query_width, kv_width, kv_heads=kv_heads, bytes_each=bytes_each)
        return ContextBytes(once, once)
    once = kv_bytes(num_ranks, tokens, kv_width, bytes_each=bytes_each)
    return ContextBytes(once, once + kv_bytes(num_ranks, tokens, kv_width, bytes_each=sum_bytes))


class TwoLevelBytes(NamedTuple):
    """Bytes that a rank sends to ranks of its own inner group, and to those of other ones."""

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
    """Ulysses among `inner` ranks, then a ring of `outer` ones with `inner` times the tokens and as much less width
    (arXiv 2405.07719, section 3). With fewer key-value heads than inner ranks each goes round several times.
    """
    copies = max(1.0, inner / kv_heads) if kv_heads else 1.0
    around = query_width / inner, kv_width * copies / inner
    return TwoLevelBytes(
        context_bytes("ulysses", inner, tokens, query_width, kv_width, kv_heads=kv_heads, bytes_each=bytes_each),
        context_bytes("ring", outer, inner * tokens, *around, bytes_each=bytes_each, sum_bytes=sum_bytes),
    )


def ulysses_sends_less(num_ranks: int, heads: int, kv_heads: int) -> bool:
    """Whether Ulysses' forward sends less than a ring's: (c-1) h_kv > (c-1)/c (h + h_kv), so c > 1 + h/h_kv.

    With fewer key-value heads than ranks these are sent c/a_kv times: c (1 - 1/a_kv) > h/h_kv, never for a_kv = 1.
    """
    ring = kv_bytes(num_ranks, 1, kv_heads)
    return ulysses_bytes(num_ranks, 1, heads, kv_heads, kv_heads=kv_heads) < ring


# ---- time ------------------------------------------------------------------------------------------------------------


class RingStep(NamedTuple):
    """Seconds of one step of a ring's forward: attending to a block, and passing it on."""

    compute: float
    send: float

    @property
    def exposed(self) -> float:
        return max(0.0, self.send - self.compute)


def ring_step(
    tokens: float,
    query_width: float,
    kv_width: float,
    *,
    flops: float,
    bandwidth: float,
    causal: bool = True,
    bytes_each: float = 2,
) -> RingStep:
    """n = s/c tokens of one sequence: 4 n^2 h FLOP, half of them if causal and balanced; 2 n h_kv numbers."""
    pairs = tokens**2 * (0.5 if causal else 1.0)
    return RingStep(4 * pairs * query_width / flops, 2 * bytes_each * tokens * kv_width / bandwidth)


def least_tokens_to_hide(
    kv_share: float, *, flops: float, bandwidth: float, causal: bool = True, bytes_each: float = 2
) -> float:
    """Tokens of a rank from which a ring hides: s/c >= (h_kv/h) F/B, twice that for a balanced causal mask (bf16).

    From 4 n^2 h / F >= 2 n h_kv bytes_each / B; causal 2 n^2 h (arXiv 2310.01889, section 3.2, has MHA without a mask).
    kv_share: h_kv/h. F/B is the accelerator's FLOP per byte sent.
    """
    return kv_share * flops / bandwidth * bytes_each * (1.0 if causal else 0.5)


# ---- work ------------------------------------------------------------------------------------------------------------


def pairs_of(chunks: Sequence[range], length: int, *, documents: Documents = (), causal: bool = True) -> int:
    """Scores of the queries at some positions: each sees its own document, under a causal mask up to itself."""
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
    """Most work of a rank over the mean: 2 - 1/c of equal causal pieces (for s >> c), 1 where they are balanced.

    chunks: positions of every rank, as in `context_parallel.SequenceLayout`.
    """
    length = length or sum(len(chunk) for some in chunks for chunk in some)
    work = [pairs_of(some, length, documents=documents, causal=causal) for some in chunks]
    return max(work) * len(work) / sum(work)


# ---- memory ----------------------------------------------------------------------------------------------------------


def ring_strips(tokens: int) -> int:
    """Strips in which a block of T tokens travels in a ring's backward: of 512 tokens, but 2 at least and 8 at most.

    The more there are, the less memory they take beyond a block, and the smaller are the messages.
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
    """Blocks of 2 T h_kv numbers of `bytes_each` that are here beyond what attention of T tokens takes on a rank alone.

    A ring's forward has two: the one at work and the next. Its backward begins with the others' blocks, while there
    are no gradients of the own one yet, in n strips: keys and values of n + 1 of them and sums of gradients of n + 1
    (`sum_bytes` a number), less the room of the own gradients; in the end the own block's sums come home, a block
    beside these. For two ranks no strip is passed on a second time. Gathered: all ranks' keys and values.
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
