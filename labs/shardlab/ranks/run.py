"""`run`: one function, N real ranks, a list of results. `on_ranks` also runs under torchrun, for the labs' programs."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from collections.abc import Callable
from typing import Any

import psutil

from shardlab.ranks import mps, transports
from shardlab.ranks.call import Outcome, RankCall, validate
from shardlab.ranks.cold import call_cold
from shardlab.ranks.progress import Progress, say
from shardlab.ranks.rendezvous import refuse_inside_torchrun
from shardlab.ranks.travel import PerRank, pack
from shardlab.ranks.warm import worker

__all__ = ["PerRank", "RanksFailed", "run"]

LAUNCHERS = ("warm", "torchrun")


class RanksFailed(RuntimeError):
    """Raised when a call fails on some rank. The message says what each rank was doing; `outcome` has the details."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.report or "a rank failed")
        self.outcome = outcome


def run(
    function: Callable[..., Any],
    *args: Any,
    ranks: int = 4,
    timeout: float = 20.0,
    launcher: str = "warm",
    transport: str | None = None,
    observe: bool = True,
) -> list:
    """Run `function(*args)` on `ranks` real ranks and return a list of their results, indexed by rank.

    Inside the function, `torch.distributed` is initialized and the default group is the world. Prints are prefixed
    with the rank. `launcher="warm"` forks the ranks from a worker that has already imported torch (0.1 s);
    `"torchrun"` starts one process per rank, as in production. `transport` is `nccl`, `nccl-shared` or `gloo`; None
    picks the fastest. `observe=False` switches the ledger off for timing; hang reports then have less detail.

    Raises ValueError for sizes that cannot work, TypeError for objects that cannot be pickled, RuntimeError inside
    torchrun, and RanksFailed with a report of every rank if one raised, died, hung for `timeout` seconds, or received
    a message of a different size. Calls that were never waited for, and calls on groups that the rank is not in, are
    printed as notes.
    """
    refuse_inside_torchrun()
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    validate(ranks, timeout, psutil.virtual_memory().available, limit)
    if launcher not in LAUNCHERS:
        raise ValueError(f"launcher={launcher!r}: use 'warm' or 'torchrun'")
    for argument in args:
        if isinstance(argument, PerRank) and len(argument) != ranks:
            raise ValueError(f"PerRank has {len(argument)} values for {ranks} ranks: give one value per rank")
    chosen = transports.check_transport(transport, ranks)
    variables = transports.environment(chosen) | (mps.environment(ranks) if chosen == transports.NCCL_SHARED else {})
    call = RankCall(pack(function, args), ranks, float(timeout), chosen, observe, variables)
    make_call = call_cold if launcher == "torchrun" else worker().call
    with Progress(timeout) as progress:
        outcome = make_call(call, progress.show)
    if not outcome.is_right:
        if chosen == transports.NCCL_SHARED:
            mps.renew()
        _forget_frames()
        raise RanksFailed(outcome)
    for note in outcome.notes:
        say(note)
    return [pickle.loads(end.result or b"") for end in outcome.ends]


def _forget_frames() -> None:
    """Make IPython show only the report: the frames between a cell and its ranks do not help a student."""
    shell = sys.modules.get("IPython")
    if shell is not None and (ip := shell.get_ipython()) is not None:
        ip.set_custom_exc((RanksFailed,), _show_report)


def _show_report(shell: Any, kind: type, error: BaseException, frames: Any, tb_offset: int | None = None) -> list[str]:
    report = [f"RanksFailed: {error}"]
    shell._showtraceback(kind, error, report)
    return report


def on_ranks(
    function: Callable[..., Any], *args: Any, ranks: int, timeout: float = 150, gpus: bool = True
) -> list[Any] | None:
    """Results of `function(*args)` by rank, on torchrun's ranks if it started this program, else on `ranks` new ones.

    gpus: use one GPU per rank if possible; False uses CPU processes and gloo. Under torchrun, every rank except the
    first gets None, because only the first should print.
    """
    import torch.distributed as dist

    from shardlab.ranks.inside import torchrun_group

    if "RANK" not in os.environ:
        return run(function, *args, ranks=ranks, timeout=timeout, transport=None if gpus else "gloo")
    with torchrun_group(timeout=timeout) as group:
        results: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(results, function(*args), group=group)
        return results if dist.get_rank(group) == 0 else None
