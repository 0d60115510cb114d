"""A slow link between nodes: on one machine all ranks are near each other, so some bytes have to wait."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from shardlab.expert_parallel.agreement import Group
from shardlab.mesh.emulated import EmulatedLink


class SlowLink:
    """Every rank reaches other nodes by a link of its own, `bytes_per_second` out and as many in.

    For `Travel(link=SlowLink(...))`. Rank r of the world lies on node r // ranks_per_node. An exchange takes as long as
    what crosses nodes needs, out or in, after those before it; or as long as the real one where that is longer. Counts
    and what stays on a node cost nothing. Raises ValueError for a bandwidth or a node that is not positive.
    """

    def __init__(self, *, ranks_per_node: int, bytes_per_second: float) -> None:
        if ranks_per_node < 1:
            raise ValueError(f"nodes of {ranks_per_node} ranks: use more than 0")
        self.ranks_per_node = ranks_per_node
        self.sent_bytes = 0  # across nodes, so far
        self._link = EmulatedLink(bytes_per_second)

    def __call__(self, leaving: Sequence[int], arriving: Sequence[int], group: Group) -> float:
        """When an exchange of these bytes, to and from each rank of the group, is through; on the monotonic clock."""
        nodes = [rank // self.ranks_per_node for rank in dist.get_process_group_ranks(group)]
        here = nodes[dist.get_rank(group)]
        out, into = (
            sum(num for num, node in zip(some, nodes, strict=True) if node != here) for some in (leaving, arriving)
        )
        self.sent_bytes += out
        return self._link.send(max(out, into)) if max(out, into) else 0.0
