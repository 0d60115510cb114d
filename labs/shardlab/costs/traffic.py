"""Cost of a collective: bytes that a rank sends, and seconds in the alpha-beta model. Pure Python, no torch.

N = num_ranks, S = num_bytes of the whole tensor, alpha = seconds per message, beta = seconds per byte (1 / bandwidth of
a link that sends and receives at the same time). Adding numbers is assumed to be free (gamma = 0 in the paper).
Every function raises ValueError for fewer than one rank, negative bytes or a negative alpha or beta.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005
(the model and the costs of ring, tree and pairwise exchange). Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", JPDC 2009 (if ranks do the adding, they send 2(N-1) * S bytes in total, so the
busiest rank sends at least 2(N-1)/N * S, which is what every rank of a ring sends).
"""

from collections.abc import Iterable
from typing import NamedTuple


class RankTraffic(NamedTuple):
    """Bytes that one rank sends and receives."""

    sent: float
    received: float


class Link(NamedTuple):
    """A link in the alpha-beta model: alpha in seconds per message, beta in seconds per byte."""

    alpha: float
    beta: float


# ---- bytes that a rank sends -----------------------------------------------------------------------------------------


def ring_reduce_scatter_bytes(num_ranks: int, num_bytes: float) -> float:
    """(N-1)/N * S: a rank sends every chunk but its own once (S = the whole tensor, before)."""
    _check(num_ranks, num_bytes)
    return (num_ranks - 1) * num_bytes / num_ranks


def ring_all_gather_bytes(num_ranks: int, num_bytes: float) -> float:
    """(N-1)/N * S: a rank sends every chunk but its right neighbor's once (S = the whole tensor, afterwards)."""
    _check(num_ranks, num_bytes)
    return (num_ranks - 1) * num_bytes / num_ranks


def ring_all_reduce_bytes(num_ranks: int, num_bytes: float) -> float:
    """2(N-1)/N * S: a reduce-scatter, then an all-gather; the busiest rank cannot send less (Patarasuk, Yuan 2009)."""
    return ring_reduce_scatter_bytes(num_ranks, num_bytes) + ring_all_gather_bytes(num_ranks, num_bytes)


def zero_bytes(num_ranks: int, num_bytes: float, stage: int) -> float:
    """Bytes per rank and data-parallel step: 2(N-1)/N of the model for stages 0, 1 and 2, 3(N-1)/N for stage 3.

    num_bytes: the (padded) model's gradients or weights. Stage 0 is DDP: an all-reduce. Stages 1 and 2 reduce-scatter
    gradients and all-gather weights; stage 3 gathers the weights twice (1910.02054, section 7).
    Raises ValueError for any other stage.
    """
    if stage not in range(4):
        raise ValueError(f"ZeRO stage {stage}: use 0 (DDP), 1, 2 or 3")
    if stage == 0:
        return ring_all_reduce_bytes(num_ranks, num_bytes)
    gathers = 2 if stage == 3 else 1
    return ring_reduce_scatter_bytes(num_ranks, num_bytes) + gathers * ring_all_gather_bytes(num_ranks, num_bytes)


def naive_all_reduce_bytes(num_ranks: int, num_bytes: float) -> RankTraffic:
    """(N-1) * S in and (N-1) * S out of rank 0: all ranks send to rank 0, which sums and sends the result to each."""
    _check(num_ranks, num_bytes)
    return RankTraffic(sent=(num_ranks - 1) * num_bytes, received=(num_ranks - 1) * num_bytes)


def tree_all_reduce_bytes(num_ranks: int, num_bytes: float) -> float:
    """ceil(log2 N) * S, sent by the busiest rank, rank 0, on the way down; 2(N-1) * S over all ranks."""
    _check(num_ranks, num_bytes)
    return _num_levels(num_ranks) * num_bytes


def broadcast_bytes(num_ranks: int, num_bytes: float) -> float:
    """S: in a ring every rank but the last forwards the whole tensor once."""
    _check(num_ranks, num_bytes)
    return float(num_bytes) if num_ranks > 1 else 0.0


def all_to_all_bytes(num_ranks: int, num_bytes: float) -> float:
    """(N-1)/N * S: one of N chunks stays (S = what one rank holds for all ranks, itself included)."""
    _check(num_ranks, num_bytes)
    return (num_ranks - 1) * num_bytes / num_ranks


def hierarchical_all_reduce_cross_bytes(num_nodes: int, ranks_per_node: int, num_bytes: float) -> float:
    """2(M-1)/M * S/L, sent by a rank to other nodes: an all-reduce of its chunk over M nodes (arXiv 1811.05233)."""
    _check(ranks_per_node, num_bytes)
    return ring_all_reduce_bytes(num_nodes, num_bytes / ranks_per_node)


# ---- exact element counts, for tensors that N does not divide --------------------------------------------------------


def ring_chunk_sizes(num_elements: int, num_ranks: int) -> list[int]:
    """Elements in each rank's chunk: the first num_elements % N chunks have one more, as in torch.tensor_split."""
    _check(num_ranks, num_elements)
    quotient, remainder = divmod(num_elements, num_ranks)
    return [quotient + (rank < remainder) for rank in range(num_ranks)]


def ring_sent_elements(num_elements: int, num_ranks: int, rank: int) -> int:
    """Elements that `rank` sends in a ring all-reduce: all but its own chunk, then all but its right neighbor's."""
    sizes = ring_chunk_sizes(num_elements, num_ranks)
    if not 0 <= rank < num_ranks:
        raise ValueError(f"rank {rank} is not in a ring of {num_ranks}: use a rank from 0 to {num_ranks - 1}")
    return (num_elements - sizes[rank]) + (num_elements - sizes[(rank + 1) % num_ranks])


# ---- seconds ---------------------------------------------------------------------------------------------------------


def all_reduce_messages(num_ranks: int, algorithm: str = "ring") -> int:
    """Number of sequential messages (alphas): ring 2(N-1), tree 2 * ceil(log2 N), naive 2(N-1)."""
    return _all_reduce_steps(num_ranks, 0, algorithm)[0]


def all_reduce_seconds(
    num_ranks: int, num_bytes: float, *, alpha: float, beta: float, algorithm: str = "ring"
) -> float:
    """messages * alpha + bytes * beta along the slowest path.

    ring:  2(N-1) * (alpha + beta * S/N)
    tree:  2 * ceil(log2 N) * (alpha + beta * S), up a binary tree and back down with the whole tensor
    naive: 2(N-1) * (alpha + beta * S), one after the other through rank 0
    """
    messages, bytes_each = _all_reduce_steps(num_ranks, num_bytes, algorithm)
    return messages * _message_seconds(bytes_each, alpha, beta)


def reduce_scatter_seconds(num_ranks: int, num_bytes: float, *, alpha: float, beta: float) -> float:
    """(N-1) * (alpha + beta * S/N), in a ring."""
    _check(num_ranks, num_bytes)
    return (num_ranks - 1) * _message_seconds(num_bytes / num_ranks, alpha, beta)


def all_gather_seconds(num_ranks: int, num_bytes: float, *, alpha: float, beta: float) -> float:
    """(N-1) * (alpha + beta * S/N), in a ring; S = the whole tensor, after the all-gather."""
    return reduce_scatter_seconds(num_ranks, num_bytes, alpha=alpha, beta=beta)


def all_to_all_seconds(num_ranks: int, num_bytes: float, *, alpha: float, beta: float) -> float:
    """(N-1) * (alpha + beta * S/N), pairwise exchange; S = what one rank holds for all ranks, itself included."""
    return reduce_scatter_seconds(num_ranks, num_bytes, alpha=alpha, beta=beta)


def tree_ring_crossover_bytes(num_ranks: int, alpha: float, beta: float) -> float:
    """The S below which the tree is faster than the ring: alpha/beta * (N-1-L) / (L - (N-1)/N), L = ceil(log2 N).

    Zero for N up to 3, where a tree has as many steps as a ring and never wins.
    """
    _check(num_ranks, 0)
    if alpha < 0 or beta <= 0:
        raise ValueError(
            f"alpha = {alpha} and beta = {beta} do not describe a link: use alpha >= 0 and beta > 0, in seconds"
        )
    levels = _num_levels(num_ranks)
    if num_ranks <= 3:
        return 0.0
    return alpha / beta * (num_ranks - 1 - levels) / (levels - (num_ranks - 1) / num_ranks)


def all_reduce_samples(
    num_ranks: int, points: Iterable[tuple[float, float]], algorithm: str = "ring"
) -> list[tuple[float, float, float]]:
    """Turn measured (bytes of the tensor, seconds) into (messages, bytes, seconds) of the slowest path."""
    counted = [(*_all_reduce_steps(num_ranks, num_bytes, algorithm), seconds) for num_bytes, seconds in points]
    return [(messages, messages * bytes_each, seconds) for messages, bytes_each, seconds in counted]


def range_to_expect(link: Link, samples: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """The smallest and the largest ratio of measured to predicted seconds, over samples as in `fit_alpha_beta`."""
    ratios = [
        seconds / (messages * link.alpha + num_bytes * link.beta) for messages, num_bytes, seconds in _positive(samples)
    ]
    return min(ratios), max(ratios)


def fit_alpha_beta(samples: Iterable[tuple[float, float, float]]) -> Link:
    """Fit a link to measured (messages, bytes, seconds): seconds = alpha * messages + beta * bytes.

    Uses least squares of the *relative* error, so that a short message counts as much as a long one; neither is
    negative.
    Raises ValueError if the samples do not determine alpha and beta.
    """
    rows = [(messages / seconds, num_bytes / seconds) for messages, num_bytes, seconds in _positive(samples)]
    mm, mb, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    m, b = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = mm * bb - mb * mb
    if determinant <= 1e-9 * mm * bb:
        raise ValueError(
            "these samples do not determine alpha and beta: measure a short and a long message, such as 1 KB and 1 MB"
        )
    alpha, beta = (m * bb - b * mb) / determinant, (b * mm - m * mb) / determinant
    if alpha < 0:
        return Link(0.0, b / bb)
    if beta < 0:
        return Link(m / mm, 0.0)
    return Link(alpha, beta)


# ---- shared ----------------------------------------------------------------------------------------------------------


def _all_reduce_steps(num_ranks: int, num_bytes: float, algorithm: str) -> tuple[int, float]:
    """The number of sequential messages and the bytes of each."""
    _check(num_ranks, num_bytes)
    if algorithm == "ring":
        return 2 * (num_ranks - 1), num_bytes / num_ranks
    if algorithm == "tree":
        return 2 * _num_levels(num_ranks), num_bytes
    if algorithm == "naive":
        return 2 * (num_ranks - 1), num_bytes
    raise ValueError(f"unknown all-reduce algorithm {algorithm!r}: use 'ring', 'tree' or 'naive'")


def _message_seconds(num_bytes: float, alpha: float, beta: float) -> float:
    if alpha < 0 or beta < 0:
        raise ValueError(f"alpha = {alpha} and beta = {beta} must not be negative: both are in seconds")
    return alpha + beta * num_bytes


def _num_levels(num_ranks: int) -> int:
    return (num_ranks - 1).bit_length()  # ceil(log2 N), exactly


def _positive(samples: Iterable[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    samples = list(samples)
    if len(samples) < 2:
        raise ValueError(f"{len(samples)} samples are too few for alpha and beta: measure at least 2 sizes")
    for sample in samples:
        if min(sample) < 0 or sample[2] == 0:
            raise ValueError(f"sample {sample} is not (messages, bytes, seconds): give counts >= 0 and seconds > 0")
    return samples


def _check(num_ranks: int, num_bytes: float) -> None:
    if num_ranks < 1:
        raise ValueError(f"{num_ranks} ranks cannot communicate: use 1 or more")
    if num_bytes < 0:
        raise ValueError(f"a tensor cannot have {num_bytes} bytes: use 0 or more")
