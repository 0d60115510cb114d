"""A slow link between nodes: on one machine all ranks are near each other, so some bytes have to wait."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch.distributed as dist

from shardlab.expert_parallel.agreement import Group


class SlowLink:
    """Every rank reaches other nodes by a link of its own, `bytes_per_second` out and as many in.

    For `Travel(link=SlowLink(...))`. Rank r of the world lies on node r // ranks_per_node. An exchange takes as long as
    what crosses nodes needs, out or in, after those before it; or as long as the real one where that is longer. Counts
    and what stays on a node cost nothing. Raises ValueError for a bandwidth or a node that is not positive.
    """

    def __init__(self, *, ranks_per_node: int, bytes_per_second: float) -> None:
        if ranks_per_node < 1 or not bytes_per_second > 0:
            raise ValueError(
                f"nodes of {ranks_per_node} ranks at {bytes_per_second} bytes per second: use more than 0 of both"
            )
        self.ranks_per_node, self.bytes_per_second = ranks_per_node, bytes_per_second
        self.sent_bytes = 0  # across nodes, so far
        self._free_at = 0.0

    def __call__(self, leaving: Sequence[int], arriving: Sequence[int], group: Group) -> float:
        """When an exchange of these bytes, to and from each rank of the group, is through; on the monotonic clock."""
        nodes = [rank // self.ranks_per_node for rank in dist.get_process_group_ranks(group)]
        here = nodes[dist.get_rank(group)]
        out, into = (
            sum(num for num, node in zip(some, nodes, strict=True) if node != here) for some in (leaving, arriving)
        )
        self.sent_bytes += out
        if max(out, into):
            self._free_at = max(self._free_at, time.monotonic()) + max(out, into) / self.bytes_per_second
        return self._free_at if max(out, into) else 0.0
