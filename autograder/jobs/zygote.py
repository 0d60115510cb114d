"""The zygote: a process with torch and shardlab imported and no secrets. It forks one confined job per request.

`python -m autograder.jobs.zygote LEVEL` reads requests from standard input and writes replies to standard output, each
as a length and a plain message. The judge starts one per slot, inside bubblewrap or a container if available. LEVEL is
the isolation level. The zygote passes a submission's answers and inputs on without reading them (see `parcels`).
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy  # noqa: F401 - jobs find it imported
import torch
import torch._dynamo  # otherwise a rank's first optimizer imports its 800 modules, which takes a second or two
from shardlab.meter import place
from shardlab.ranks.shared_pages import prepare_to_fork
from shardlab.ranks.supervise import end_with_parent

from autograder.jobs import confine, contained, job, loading, masked, message, parcels, places, reduce_scatter, tags
from autograder.jobs.message import Report, Request
from autograder.jobs.rehearsal import rehearse

SLACK = 15.0  # seconds that a job may take beyond its ranks' own limit


def serve(source: int, target: int, level: int) -> None:
    """Answer requests until the judge closes the pipe: each is a request, the number of parcels, and the parcels."""
    torch.ones(1).half()  # torch reads the CPU's features once, from files that a rank may not read
    while (head := parcels.read_exactly(source, parcels.LENGTH.size)) is not None:
        (length,) = parcels.LENGTH.unpack(head)
        request = message.decode(Request, parcels.read_exactly(source, length) or b"")
        (num_parts,) = parcels.LENGTH.unpack(parcels.read_exactly(source, parcels.LENGTH.size) or b"")
        parts = [parcels.receive(source) for _ in range(num_parts)]
        answer = _in_a_job(request, parts, level)
        parcels.send(target, answer)
        for descriptor in (answer, *parts):
            os.close(descriptor)
        if level == 2 and not contained.clean_up():
            return  # the next job starts in a new container


def _in_a_job(request: Request, parts: Sequence[int], level: int) -> int:
    """Fork a process that enters new namespaces and whose child is the job; wait, end both, return the reply's file.

    The job signals when its reply is complete, so that Linux removes its namespaces while the judge reads the reply.
    """
    answer = parcels.anonymous()
    told, held = os.pipe()
    outer = os.fork()
    if outer == 0:
        os.close(told)
        _leave_and_work(request, parts, answer, held, level)
    os.close(held)
    ended, _, _ = select.select([told], [], [], request.timeout + loading.MOST_SECONDS + SLACK)
    os.close(told)
    with suppress(ProcessLookupError):
        os.kill(outer, 9)
    os.waitpid(outer, 0)
    if not ended or os.fstat(answer).st_size == 0:
        os.close(answer)
        answer = parcels.anonymous()
        parcels.write_all(answer, message.encode(Report(lost="the job ended without an answer")))
    return answer


def _leave_and_work(request: Request, parts: Sequence[int], answer: int, held: int, level: int) -> None:
    """1. enter new namespaces  2. fork process 1  3. hide modules  4. supervise the ranks  5. reply and exit."""
    end_with_parent()
    entered = level == 3 and confine.enter_namespaces()
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
    end_with_parent()
    try:
        if entered:
            confine.settle(request.masked)
        elif level == 3:
            raise OSError("namespaces are not available any more, although they were when this program started")
        else:
            os.setsid()
        masked.mask(request.masked)  # once for all ranks
        with job.listener(request, level) as listener:  # reply before closing it, which takes a while
            _hand_in(answer, message.encode(job.work(request, parts, (answer, held, 3, 4), listener, level)))
            os.write(held, b".")
    except BaseException as error:
        with suppress(OSError):
            _hand_in(answer, message.encode(Report(lost=f"{type(error).__name__}: {error}")))
    os._exit(0)


def _hand_in(answer: int, data: bytes) -> None:
    os.ftruncate(answer, 0)
    os.lseek(answer, 0, os.SEEK_SET)
    parcels.write_all(answer, data)


def main() -> None:
    """Move the pipes away from standard input and output, so that prints cannot get into them, and serve."""
    os.dup2(0, 3)
    os.dup2(1, 4)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    end_with_parent()
    torch.set_num_threads(1)
    reduce_scatter.install()
    tags.ignore()
    places.shown()  # cached here, so that forked jobs inherit it; the same holds for the next line
    masked.loaded()
    for path in Path(__file__).parent.glob("*.py"):
        place.hide(str(path))  # so that no report names a line of the grader
    rehearse()
    prepare_to_fork()
    serve(3, 4, level=int(sys.argv[1]))


if __name__ == "__main__":
    main()
