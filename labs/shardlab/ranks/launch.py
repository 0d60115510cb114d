"""For programs of the labs: the ranks that `torchrun` has started, or new ones of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def on_ranks(
    function: Callable[..., Any], *args: Any, ranks: int, timeout: float = 150, gpus: bool = True
) -> list[Any] | None:
    """Results of `function(*args)` by rank: of torchrun's ranks if it started this program, else of `ranks` new ones.

    gpus: use a GPU a rank where there is one; False keeps to CPU processes and gloo. Returns None on those ranks of
    torchrun that are not to print: all but the first.
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
