"""For the labs' programs: use the ranks that `torchrun` started, or start new ones on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def on_ranks(
    function: Callable[..., Any], *args: Any, ranks: int, timeout: float = 150, gpus: bool = True
) -> list[Any] | None:
    """Results of `function(*args)` by rank, on torchrun's ranks if it started this program, else on `ranks` new ones.

    gpus: use one GPU per rank if possible; False uses CPU processes and gloo. Under torchrun, every rank except the
    first gets None, because only the first should print.
    """
    import torch.distributed as dist

    from shardlab.ranks.inside import torchrun_group
    from shardlab.ranks.run import run

    if "RANK" not in os.environ:
        return run(function, *args, ranks=ranks, timeout=timeout, transport=None if gpus else "gloo")
    with torchrun_group(timeout=timeout) as group:
        results: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(results, function(*args), group=group)
        return results if dist.get_rank(group) == 0 else None
