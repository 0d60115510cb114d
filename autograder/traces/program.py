"""The child process: read one request per line, fork its ranks, print their events as one line.

`python -m autograder.traces.program`. It ends at the end of its input, or after two minutes without a request.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from autograder.traces import recorder
from autograder.traces.cpu import answer_for_cuda
from autograder.traces.layouts import decode
from autograder.traces.runs import RUNS, load

IDLE_SECONDS = 120
RANK_SECONDS = 60


def main() -> None:
    """Answer requests until there are no more."""
    os.environ |= {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    torch.set_num_threads(1)
    answers = os.dup(1)
    os.dup2(2, 1)  # what Megatron prints is no answer
    recorder.wrap()
    answer_for_cuda()
    while select.select([0], [], [], IDLE_SECONDS)[0] and (line := sys.stdin.readline()):
        os.write(answers, json.dumps(_told(json.loads(line))).encode() + b"\n")


def _told(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(request)
    except Exception as error:  # an import that fails is the machine's fault, and needs a sentence
        return {"error": f"{type(error).__name__}: {error}"}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a layout: `rank` of it alone on the fake backend, or with None all its ranks on gloo."""
    load(request["layout"]["kind"])  # once, here, and not in every rank
    world = request["layout"]["world"]
    ranks = range(world) if request["rank"] is None else [request["rank"]]
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        started = [fork.Process(target=run_rank, args=(request, rank, Path(folder))) for rank in ranks]
        for one in started:
            one.start()
        for one in started:
            one.join(RANK_SECONDS)
            one.kill()
        told = [Path(folder) / f"{rank}.json" for rank in ranks]
        if not all(path.exists() for path in told):
            wrong = next(iter(sorted(Path(folder).glob("*.error"))), None)
            return {"error": wrong.read_text() if wrong else f"its ranks took more than {RANK_SECONDS} seconds"}
        return {"ranks": [json.loads(path.read_text()) for path in told]}


def run_rank(request: dict[str, Any], rank: int, folder: Path) -> None:
    """One rank's process: it leaves its events, or its error, in the folder."""
    layout = decode(request["layout"])
    try:
        if request["rank"] is None:
            store: Any = dist.FileStore(str(folder / "store"), layout.world)
            dist.init_process_group("gloo", rank=rank, world_size=layout.world, store=store)
        else:
            from torch.testing._internal.distributed.fake_pg import FakeStore

            dist.init_process_group("fake", rank=rank, world_size=layout.world, store=FakeStore())
        torch.manual_seed(0)
        RUNS[request["layout"]["kind"]](layout, recorder.visits(request["places"]))
        unfinished = folder / f"{rank}.part"
        unfinished.write_text(json.dumps(recorder.events))
        unfinished.rename(folder / f"{rank}.json")
    except Exception as error:
        (folder / f"{rank}.error").write_text(f"{type(error).__name__} on rank {rank}: {error}"[:1000])
    os._exit(0)  # without waiting for peers


if __name__ == "__main__":
    main()
