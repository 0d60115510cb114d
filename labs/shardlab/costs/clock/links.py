"""Seconds of a collective on a cluster of servers: which link a group's ring crosses, and how many share it.

Ranks are numbered with tp innermost, then cp, dp and pp, so that a group of `size` ranks has a `stride` between two
neighbours. NVLink joins a server's GPUs; a ring that leaves the server uses the network card of every member in it.
"""

from shardlab.costs.clock.efficiency import HOP_SECONDS, Efficiency, nvlink_of
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout


def ring_bandwidth(gpu: Accelerator, efficiency: Efficiency, size: int, stride: int) -> float:
    """Bytes a second through each rank of a ring: NVLink inside a server, else its members' network cards together."""
    inside = gpu.nvlink * nvlink_of(gpu.generation).share
    if size * stride <= gpu.per_node:
        return inside
    members = min(size, max(1, gpu.per_node // stride))
    return min(inside, gpu.network * efficiency.network * members)


def ring_alpha(gpu: Accelerator, efficiency: Efficiency, size: int, stride: int) -> float:
    """Seconds of latency of an all-gather or reduce-scatter: a call, a ring's N-1 messages, slower between servers."""
    members = min(size, max(1, gpu.per_node // stride))
    servers = -(-size // members)
    link = nvlink_of(gpu.generation)
    return link.call + (size - servers) * link.alpha + (servers - 1) * HOP_SECONDS


def ring_seconds(
    gpu: Accelerator,
    efficiency: Efficiency,
    size: int,
    stride: int,
    sent_bytes: float,
    calls: float = 1,
    *,
    one_card: bool = False,
) -> float:
    """Seconds to send so many bytes per rank in all-gathers or reduce-scatters (an all-reduce is one of each).

    one_card: of each server, in the place of its members' cards together.
    """
    if size == 1:
        return 0.0
    bandwidth = ring_bandwidth(gpu, efficiency, size, stride)
    if one_card and size * stride > gpu.per_node:
        bandwidth = gpu.network * efficiency.network
    return calls * ring_alpha(gpu, efficiency, size, stride) + sent_bytes / bandwidth


def dispatch_seconds(
    gpu: Accelerator, efficiency: Efficiency, size: int, stride: int, token_bytes: float, copies: int
) -> float:
    """Seconds to send each of a rank's tokens (token_bytes together) to `copies` random ranks of a group.

    Inside a server every copy travels; to another server a token travels once and is spread there over NVLink, as in
    DeepSeek-V3 (arXiv 2412.19437, section 3.2.2): of S servers it reaches (S-1)(1 - (1 - 1/S)^k) others.
    """
    if size == 1:
        return 0.0
    members = min(size, max(1, gpu.per_node // stride))
    servers = -(-size // members)
    link = nvlink_of(gpu.generation)
    inside = token_bytes * copies * (members - 1) / members / (gpu.nvlink * link.share)
    reached = (servers - 1) * (1 - (1 - 1 / servers) ** copies)
    outside = token_bytes * reached / (gpu.network * efficiency.network)
    latency = link.call + (members - 1) * link.alpha + (HOP_SECONDS if servers > 1 else 0.0)
    return latency + max(inside, outside)


def boundary_bandwidth(gpu: Accelerator, efficiency: Efficiency, layout: Layout) -> float:
    """Bytes a second between two stages: NVLink while the pipeline's neighbours share a server, else one card."""
    stride = layout.world // layout.pp
    if layout.pp * stride <= gpu.per_node:
        return gpu.nvlink * nvlink_of(gpu.generation).share
    return gpu.network * efficiency.network
