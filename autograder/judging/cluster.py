"""Judge many submissions side by side with Dask: threads of this process, or the workers of a cluster.

A worker of a cluster is started in the project's environment with `dask worker tcp://HOST:8786`. It gets dossiers and
gives verdicts; files, gradebook and expected points of others stay on the machine that grades. A lost worker's
submissions are judged by another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from dask import config
from distributed import Client, Future, KilledWorker, WorkerPlugin, as_completed

from autograder.judging.judge import Judge
from autograder.judging.submission import Judged, judge_dossier, refused
from autograder.reading.dossier import Dossier

RETRIES = 3  # times that a submission is given to another worker after its own was lost
ATTEMPTS = 5  # of telling all workers something: one that dies meanwhile is noticed within seconds
PAUSE = 1.0
ANSWER_LIMIT = "10s"

SILENT = {  # Dask's own pages and JSON list running jobs for everybody who can reach the port; `--no-dashboard` too
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

_judges: dict[int, Judge] = {}


class CloseJudges(WorkerPlugin):
    """End the sandboxes of a worker with the worker."""

    name = "close-judges"

    def teardown(self, worker: Any) -> None:
        """Called by Dask when the worker closes, or when the class has been graded."""
        for judge in [_judges.pop(thread) for thread in list(_judges)]:
            judge.__exit__()


def judge_all(
    dossiers: Sequence[Dossier], seed: int, *, workers: int, scheduler: str | None = None
) -> Iterator[tuple[Dossier, Judged]]:
    """Judge dossiers on `workers` threads here, or on the cluster at `scheduler`; give each as it is done.

    A submission that no worker finished gets a fault of the machine. Raises ValueError when there is no cluster at that
    address.
    """
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # Dask drops a timer when it closes, which would be printed
    settings = SILENT | {"distributed.scheduler.allowed-failures": RETRIES}
    with config.set(settings), _client(workers, scheduler) as client:
        _patiently(client.register_plugin, CloseJudges())
        try:
            futures = {_submit(client, dossier, seed): dossier for dossier in dossiers}
            for future in as_completed(list(futures)):
                yield futures[future], _result(futures[future], future)
        finally:
            with suppress(Exception):  # every submission has its verdict; what is left ends with the worker
                _patiently(client.unregister_worker_plugin, CloseJudges.name)


def _result(dossier: Dossier, future: Future) -> Judged:
    """What a worker found, or what became of the submission instead."""
    try:
        return future.result()
    except Exception as error:
        return refused(dossier, "judged", error, fault=isinstance(error, KilledWorker))


def _patiently(tell_workers: Callable[[Any], Any], what: Any) -> None:
    """Tell every worker; one that dies while it is told is gone at the next try. Raises the last try's error."""
    for left in reversed(range(ATTEMPTS)):
        try:
            tell_workers(what)
            return
        except Exception:
            if not left:
                raise
            time.sleep(PAUSE)


def _submit(client: Client, dossier: Dossier, seed: int) -> Future:
    return client.submit(_judge_here, dossier, seed, pure=False, retries=RETRIES)  # a key that names nobody


def _client(workers: int, scheduler: str | None) -> Client:
    if scheduler is None:
        return Client(
            processes=False,
            n_workers=1,
            threads_per_worker=workers,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
        )
    try:
        return Client(scheduler, timeout=ANSWER_LIMIT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {scheduler}: start one with `dask scheduler`, and `dask worker {scheduler}` "
            f"on each machine ({error})"
        ) from None


def _judge_here(dossier: Dossier, seed: int) -> Judged:
    """Judge with this thread's own sandbox, which the next submission finds warm."""
    judge = _judges.setdefault(threading.get_ident(), Judge())
    return judge_dossier(dossier, judge, seed)
