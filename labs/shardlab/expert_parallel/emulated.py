"""Emulate a slow link between nodes on a single machine, by delaying the bytes that would cross nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from shardlab.expert_parallel.agreement import Group
from shardlab.mesh.emulated import EmulatedLink


class SlowLink:
    """Every rank has its own link to other nodes, with `bytes_per_second` in each direction.

    Use it as `Travel(link=SlowLink(...))`. Rank r of the world is on node r // ranks_per_node. An exchange starts after
    earlier ones have finished. It takes as long as the bytes that cross nodes need, outgoing or incoming, or as long
    as the real exchange if that is longer. Counts and bytes within a node cost nothing. Raises ValueError if the
    bandwidth or the node size is not positive.
    """

    def __init__(self, *, ranks_per_node: int, bytes_per_second: float) -> None:
        if ranks_per_node < 1:
            raise ValueError(f"ranks_per_node = {ranks_per_node}: use more than 0")
        self.ranks_per_node = ranks_per_node
        self.sent_bytes = 0  # across nodes, so far
        self._link = EmulatedLink(bytes_per_second)

    def __call__(self, leaving: Sequence[int], arriving: Sequence[int], group: Group) -> float:
        """The time on the monotonic clock when an exchange of these bytes with each rank of the group is finished."""
        nodes = [rank // self.ranks_per_node for rank in dist.get_process_group_ranks(group)]
        here = nodes[dist.get_rank(group)]
        out, into = (
            sum(num for num, node in zip(some, nodes, strict=True) if node != here) for some in (leaving, arriving)
        )
        self.sent_bytes += out
        return self._link.send(max(out, into)) if max(out, into) else 0.0
