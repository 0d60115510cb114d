"""Seconds of a collective on a cluster of servers: which link a group's ring crosses, and how many share it.

Ranks are numbered with tp innermost, then cp, dp and pp, so that a group of `size` ranks has a `stride` between two
neighbours. NVLink joins a server's GPUs; a ring that leaves the server uses the network card of every member in it.
"""

from shardlab.costs.efficiency import NVLINK, NVLINK_ALPHA, Efficiency
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout


def ring_bandwidth(gpu: Accelerator, efficiency: Efficiency, size: int, stride: int) -> float:
    """Bytes a second through each rank of a ring: NVLink inside a server, else its members' network cards together."""
    if size * stride <= gpu.per_node:
        return gpu.nvlink * NVLINK
    members = min(size, max(1, gpu.per_node // stride))
    return min(gpu.nvlink * NVLINK, gpu.network * efficiency.network * members)


def ring_alpha(gpu: Accelerator, efficiency: Efficiency, size: int, stride: int) -> float:
    """Seconds of latency of an all-gather or reduce-scatter: a ring's N-1 messages, those between servers slower."""
    members = min(size, max(1, gpu.per_node // stride))
    servers = -(-size // members)
    return (size - servers) * NVLINK_ALPHA + (servers - 1) * efficiency.hop_seconds


def ring_seconds(
    gpu: Accelerator, efficiency: Efficiency, size: int, stride: int, sent_bytes: float, calls: float = 1
) -> float:
    """Seconds to send so many bytes a rank in all-gathers or reduce-scatters (an all-reduce is one of each)."""
    if size == 1:
        return 0.0
    return calls * ring_alpha(gpu, efficiency, size, stride) + sent_bytes / ring_bandwidth(
        gpu, efficiency, size, stride
    )


def all_to_all_seconds(gpu: Accelerator, efficiency: Efficiency, size: int, stride: int, held_bytes: float) -> float:
    """Seconds of an all-to-all of what a rank holds: its own server's share over NVLink, the rest over its own card."""
    if size == 1:
        return 0.0
    members = min(size, max(1, gpu.per_node // stride))
    inside = held_bytes * (members - 1) / size / (gpu.nvlink * NVLINK)
    outside = held_bytes * (size - members) / size / (gpu.network * efficiency.network)
    latency = (members - 1) * NVLINK_ALPHA + (efficiency.hop_seconds if size > members else 0.0)
    return latency + max(inside, outside)


def boundary_bandwidth(gpu: Accelerator, efficiency: Efficiency, layout: Layout) -> float:
    """Bytes a second between two stages: NVLink while the pipeline's neighbours share a server, else one card."""
    stride = layout.world // layout.pp
    if layout.pp * stride <= gpu.per_node:
        return gpu.nvlink * NVLINK
    return gpu.network * efficiency.network
