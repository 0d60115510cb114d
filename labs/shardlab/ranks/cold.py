"""The cold launcher: `torchrun` with one process per rank, as in production.

It is slower than the warm worker; a test checks that both give the same results.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from shardlab.ranks.call import OUTPUT_LIMIT, Outcome, RankCall, RankEnd
from shardlab.ranks.travel import child_environment, run_payload
from shardlab.ranks.warm import end_session, torchrun

DIE_WITH_PARENT = """if True:
    import os, sys
    if sys.platform == "linux":
        import ctypes
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, kept by exec: torchrun ends with the notebook
    os.environ["SHARDLAB_TORCHRUN"] = str(os.getpid())
    os.execv(sys.argv[1], sys.argv[1:])
"""
TORCHRUN_START = 60.0  # seconds beyond the call's timeout: every rank imports torch by itself


def call_cold(call: RankCall, printer: Callable[[int, str], None]) -> Outcome:
    """Run one call under its own torchrun. The ranks write their results to a temporary folder."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardlab-") as folder:
        place = Path(folder)
        (place / "call").write_bytes(pickle.dumps(call))
        command = [sys.executable, "-c", DIE_WITH_PARENT, *torchrun(call.num_ranks)]
        command += ["-m", "shardlab.ranks.cold", folder]
        process = subprocess.Popen(
            command,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(call.timeout + TORCHRUN_START)
            timed_out = False
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            end_session(process)
        for rank in range(call.num_ranks):
            printed = place / f"printed.{rank}"
            if printed.exists():
                printer(rank, printed.read_bytes()[:OUTPUT_LIMIT].decode(errors="replace"))
        ends = [_end_of(place, rank) for rank in range(call.num_ranks)]
    outcome = Outcome(ends, time.monotonic() - began, timed_out)
    if not outcome.is_right:
        from shardlab.ranks.explain import NOT_KEPT, explain

        outcome.report = explain(outcome, [NOT_KEPT] * call.num_ranks, call.timeout)
    return outcome


def _end_of(place: Path, rank: int) -> RankEnd:
    from shardlab.ranks import inside

    path = place / f"result.{rank}"
    message = path.read_bytes() if path.exists() else b""
    if message[:1] == inside.RESULT:
        return RankEnd(result=message[1:])
    if message[:1] == inside.ERROR:
        return RankEnd(error=message[1:].decode(errors="replace"))
    return RankEnd()


def _be_a_rank(folder: Path) -> None:
    """Be one rank, started by torchrun: join the group, run the function, write the result to a file."""
    import torch
    import torch.distributed as dist

    from shardlab.ranks import inside
    from shardlab.ranks.rendezvous import claim_torchrun
    from shardlab.ranks.supervise import end_with_parent

    end_with_parent()
    claim_torchrun()
    if os.getppid() != int(os.environ.pop("SHARDLAB_TORCHRUN")):  # torchrun ended while we imported torch
        os._exit(1)
    call: RankCall = pickle.loads((folder / "call").read_bytes())
    rank = int(os.environ["RANK"])
    sys.stdout = sys.stderr = open(folder / f"printed.{rank}", "w", buffering=1)  # noqa: SIM115 - until the end
    torch.set_num_threads(1)
    os.environ.update(call.environment)
    try:
        inside.join(
            call.transport, dist.FileStore(str(folder / "store"), call.num_ranks), rank, call.num_ranks, call.timeout
        )
        with inside.observed():
            message = inside.RESULT + run_payload(call.payload, rank)
        dist.barrier()  # no rank leaves while a peer is still reading
    except BaseException as error:
        message = inside.ERROR + inside.own_traceback(error).encode(errors="replace")
    sys.stdout.flush()
    (folder / f"result.{rank}").write_bytes(message)
    os._exit(0 if message[:1] == inside.RESULT else 1)


if __name__ == "__main__":
    _be_a_rank(Path(sys.argv[1]))
