"""Communication time on a cluster of servers: the one link model shared by pages, checks, figures and plans.

NVLink connects the GPUs of a server (or of a rack: `per_node` of them), and every GPU has one network card. A
collective over a group that spans servers runs as several rings, one through the card of each member on a server, so
that the members' cards work together ("rails"). No group is faster than NVLink, since every ring also passes through
the GPUs. A message between two ranks, or a block passed around a ring, uses one card.

Ranks are numbered so that the members of a group are `stride` apart: tp innermost, then cp, dp and pp.
N = size of a group, S = bytes of the whole tensor; seconds are latency + bytes / bandwidth.
"""

from dataclasses import dataclass

from shardlab.costs.hardware import Accelerator
from shardlab.costs.traffic import ring_all_gather_bytes


@dataclass(frozen=True)
class Links:
    """The bandwidths and latencies of a cluster. Raises ValueError for a bandwidth that is not positive.

    nvlink, network: bytes per second in one direction, of a GPU inside its server and of one network card. per_node:
    GPUs connected by NVLink. alpha, hop: seconds per message inside a server and between servers. call: seconds to
    start a collective.
    """

    nvlink: float
    network: float
    per_node: int
    alpha: float = 0.0
    hop: float = 0.0
    call: float = 0.0

    def __post_init__(self) -> None:
        if min(self.nvlink, self.network) <= 0 or self.per_node < 1:
            raise ValueError(
                f"nvlink = {self.nvlink}, network = {self.network}, per_node = {self.per_node}: "
                "use bandwidths above 0 and 1 GPU or more per server"
            )


def on_paper(gpu: Accelerator) -> Links:
    """Links as in an accelerator's data sheet: line rate and no latency. A real step achieves less."""
    return Links(gpu.nvlink, gpu.network, gpu.per_node)


@dataclass(frozen=True)
class Group:
    """How a group is placed: its size, its number of servers, and its members on a full server.

    If a server has fewer members, they are assumed to use its other cards as well.
    """

    size: int
    nodes: int
    members: int


def group_of(links: Links, size: int, stride: int = 1) -> Group:
    """The group of `size` ranks that are `stride` apart, starting with the first rank of a server."""
    if min(size, stride) < 1:
        raise ValueError(f"a group of {size} ranks, {stride} apart: use 1 or more of each")
    members = min(size, max(1, links.per_node // stride))
    return Group(size, -(-size // members), members)


# ---- collectives ---------------------------------------------------------------------------------------------------


def ring_bandwidth(links: Links, group: Group, *, cards: int | None = None) -> float:
    """Bytes per second that each rank sends in a collective through at most `cards` network cards per server."""
    if group.nodes == 1:
        return links.nvlink
    return min(links.nvlink, links.network * min(group.members, cards or group.members))


def ring_latency(links: Links, group: Group) -> float:
    """Latency of an all-gather or reduce-scatter in seconds: a call and N-1 messages, slower between servers."""
    return links.call + (group.size - group.nodes) * links.alpha + (group.nodes - 1) * links.hop


def ring_seconds(links: Links, group: Group, sent_bytes: float, *, calls: float = 1, cards: int | None = None) -> float:
    """Seconds of all-gathers or reduce-scatters in which each rank sends `sent_bytes`, (N-1)/N * S in each call."""
    if group.size == 1:
        return 0.0
    return calls * ring_latency(links, group) + sent_bytes / ring_bandwidth(links, group, cards=cards)


def all_gather_seconds(links: Links, group: Group, num_bytes: float) -> float:
    """Seconds of an all-gather or a reduce-scatter of S bytes."""
    return ring_seconds(links, group, ring_all_gather_bytes(group.size, num_bytes))


def all_reduce_seconds(links: Links, group: Group, num_bytes: float) -> float:
    """Seconds of an all-reduce of S bytes: a reduce-scatter, then an all-gather."""
    return 2 * all_gather_seconds(links, group, num_bytes)


# ---- messages between ranks ----------------------------------------------------------------------------------------


def neighbor_bandwidth(links: Links, group: Group) -> float:
    """Bytes per second to a group's next rank when all ranks send at once: the slowest pair, with one card."""
    return links.nvlink if group.nodes == 1 else min(links.nvlink, links.network)


def neighbor_seconds(links: Links, group: Group, num_bytes: float, *, messages: float = 1) -> float:
    """Seconds until every rank has passed `num_bytes` to the next one: a stage's output or blocks of a ring."""
    if group.size == 1:
        return 0.0
    latency = links.alpha if group.nodes == 1 else links.hop
    return messages * latency + num_bytes / neighbor_bandwidth(links, group)


def all_to_all_seconds(links: Links, group: Group, sent_bytes: float, *, calls: float = 1) -> float:
    """Seconds of all-to-alls in which each rank sends `sent_bytes`, (N-1)/N * S in each call.

    NVLink carries the part within the server while the rank's own card carries the rest.
    """
    if group.size == 1:
        return 0.0
    each = sent_bytes / (group.size - 1)
    inside, outside = (group.members - 1) * each / links.nvlink, (group.size - group.members) * each / links.network
    return calls * _exchange_latency(links, group) + max(inside, outside)


def dispatch_seconds(links: Links, group: Group, token_bytes: float, copies: int) -> float:
    """Seconds to send each of a rank's tokens (token_bytes in total) to `copies` random ranks of a group.

    Inside a server every copy is sent. To another server a token is sent once and spread there over NVLink, as in
    DeepSeek-V3 (arXiv 2412.19437, section 3.2.2): out of S servers it reaches (S-1)(1 - (1 - 1/S)^k) others.
    """
    if group.size == 1:
        return 0.0
    inside = token_bytes * copies * (group.members - 1) / group.members / links.nvlink
    reached = (group.nodes - 1) * (1 - (1 - 1 / group.nodes) ** copies)
    return _exchange_latency(links, group) + max(inside, token_bytes * reached / links.network)


def _exchange_latency(links: Links, group: Group) -> float:
    return links.call + (group.members - 1) * links.alpha + (links.hop if group.nodes > 1 else 0.0)
