"""Training as a program: code that runs on a rank, its exit codes, and code that starts ranks on this machine.

A process started by `torchrun` is a rank; otherwise it starts ranks through torchrun's elastic agent.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from shardlab.hybrid.sums import NotFinite
from shardlab.ranks import transports
from shardlab.ranks.inside import keep_freed_memory
from shardlab.ranks.rendezvous import meet
from shardlab.ranks.supervise import end_with_parent
from shardlab.train import build
from shardlab.train.heartbeat import beating, lookouts
from shardlab.train.hook import Hook
from shardlab.train.logs import entries
from shardlab.train.loop import train
from shardlab.train.recipe import Recipe, mesh_ranks, on_ranks
from shardlab.train.survival import Lost, goodput, observed

DONE, FAILED, WRONG_RECIPE, REFUSED, NOT_FINITE, LOST = range(6)
MEANING = {
    DONE: "training finished",
    FAILED: "something else went wrong: see the message",
    WRONG_RECIPE: "the recipe, or a change to it, does not work; nothing was started",
    REFUSED: "the ranks refused to begin, for example because the checkpoint is of another model",
    NOT_FINITE: "a loss or gradient was not finite, and the recipe says to stop then",
    LOST: "a rank was lost: it died or did not answer in time",
}


RANK = ("-m", "shardlab.train")  # Python arguments that start a rank


def be_a_rank(recipe: Recipe, *, hooks: Sequence[Hook] = (), quiet: bool = False) -> int:
    """Train as one of torchrun's ranks; returns the exit code."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with_parent()  # ranks end when the agent does, however it ends
    rank = int(os.environ["RANK"])
    try:
        build.check(recipe, int(os.environ["WORLD_SIZE"]))
    except ValueError as error:
        return _failed(rank, str(error), WRONG_RECIPE)
    try:
        with beating(rank) as hearts, joined(recipe.survival.patience, recipe.run.threads):
            train(recipe, hooks=[*hearts, *lookouts(recipe), *hooks], quiet=quiet)
        return DONE
    except NotFinite as error:
        return _failed(rank, str(error), NOT_FINITE)
    except ValueError as error:
        return _failed(rank, str(error), REFUSED)
    except (dist.DistError, RuntimeError) as error:
        if not is_about_peers(error):
            traceback.print_exc()
            return FAILED
        print(f"rank {rank}: another rank was lost: {_shortened(error)}", file=sys.stderr, flush=True)
        return LOST


def is_about_peers(error: Exception) -> bool:
    """Whether an error of torch.distributed says that another rank is gone or silent."""
    signs = ("connection", "timed out", "timeout", "peer", "socket", "gloo")
    return isinstance(error, dist.DistError) or any(sign in str(error).lower() for sign in signs)


def _shortened(error: Exception) -> str:
    """The first sentence of gloo's message, without its source location but with the peer's address."""
    line = re.sub(r"^\[\S+:\d+\] ", "", str(error).splitlines()[0])
    return line.partition(". ")[0]


@contextmanager
def joined(patience: float, threads: int = 1) -> Iterator[None]:
    """Join the world of torchrun's ranks. patience: timeout of collectives in seconds. threads: per rank.

    Unlike `ranks.torchrun_group` it records nothing, because a recorder intercepts every operator.
    """
    local, world = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ["WORLD_SIZE"])
    if local == world:
        os.environ.update(transports.environment(transports.GLOO))
    elif "GLOO_SOCKET_IFNAME" not in os.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = transports.interface_towards(os.environ["MASTER_ADDR"])
    torch.set_num_threads(threads)
    keep_freed_memory()
    meet(transports.GLOO, patience)
    yield
    dist.destroy_process_group()  # not after an error: it may wait for other ranks


def start(recipe: Recipe, arguments: Sequence[str], ranks: int | None = None, program: Sequence[str] = RANK) -> int:
    """Start ranks on this machine, each as `python PROGRAM ARGUMENTS`; returns the exit code of the first failed rank.

    When a rank is lost, survival.on_lost_rank says how to continue from the latest checkpoint: "restart" with all
    ranks, or "shrink" to as many replicas as fit on the remaining ranks.
    """
    count = ranks or mesh_ranks(recipe)
    try:
        build.check(recipe, count)
    except ValueError as error:
        return _failed(0, str(error), WRONG_RECIPE)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # ranks report errors themselves
    with reported(recipe) as told:
        code = _run(recipe, [*program, *arguments], count, told)
        while code == LOST and recipe.survival.on_lost_rank == "shrink":
            fewer = smaller(recipe, count)
            if fewer is None:
                break
            before, count = count, mesh_ranks(fewer)
            print(f"continuing with {count} of {before} ranks: mesh.dp = {fewer.mesh.dp}", file=sys.stderr, flush=True)
            code = _run(recipe, [*program, *arguments, "--set", f"mesh.dp={fewer.mesh.dp}"], count, told)
    return code


def _run(recipe: Recipe, command: Sequence[str], count: int, told: Callable[[Lost], None]) -> int:
    """Run one world of ranks under the elastic agent until it ends; the callback is called for each lost rank."""
    again = recipe.survival.restarts if recipe.survival.on_lost_rank == "restart" else 0
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=again,
        monitor_interval=0.2,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )
    try:
        with observed(recipe.survival.silence, recipe.survival.patience, told):
            elastic_launch(config, sys.executable)(*command)
        return DONE
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        code = failure.exitcode
        if code < 0:
            print(f"rank {rank} was killed by signal {-code}", file=sys.stderr)
        return LOST if code < 0 else code


def smaller(recipe: Recipe, count: int) -> Recipe | None:
    """The recipe on the largest number of ranks below `count` that its other axes and its batch allow, or None."""
    open_dp = replace(recipe, mesh=replace(recipe.mesh, dp=0))
    for fewer in range(count - 1, 0, -1):
        with suppress(ValueError):
            found = on_ranks(open_dp, fewer)
            build.check(found, fewer)
            return found
    return None


@contextmanager
def reported(recipe: Recipe) -> Iterator[Callable[[Lost], None]]:
    """Yields a function that reports a lost rank; if any was lost and there is a log, prints the goodput at the end."""
    folder = Path(recipe.run.folder) if recipe.run.folder else None
    before = sum(1 for _ in entries(folder)) if folder else 0
    lost: list[Lost] = []

    def told(one: Lost) -> None:
        lost.append(one)
        print(one.sentence(), file=sys.stderr, flush=True)

    began = time.perf_counter()
    try:
        yield told
    finally:
        if lost and folder:
            seconds, detection = time.perf_counter() - began, sum(one.silent for one in lost)
            print(goodput([*entries(folder)][before:], seconds=seconds, detection=detection).sentence(), flush=True)


def _failed(rank: int, text: str, code: int) -> int:
    """Print the message on the first rank only, and return the code."""
    if rank == 0:
        print(text, file=sys.stderr, flush=True)
    return code
