"""Judge many submissions in parallel with Dask: in threads of this process, or on the workers of a cluster.

Start a cluster's worker in the project's environment with `dask worker tcp://HOST:8786`. It receives dossiers and
returns verdicts; files, the gradebook and other students' points stay on the machine that grades. If a worker is lost,
another one judges its submissions.
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

RETRIES = 3  # how often a submission moves to another worker after its worker was lost
ATTEMPTS = 5  # at sending a plugin to all workers; a worker that dies meanwhile is noticed within seconds
PAUSE = 1.0
ANSWER_LIMIT = "10s"

SILENT = {  # Dask's pages and JSON show running jobs to anyone who can reach the port, even with `--no-dashboard`
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

_judges: dict[int, Judge] = {}


class CloseJudges(WorkerPlugin):
    """Ends the sandboxes of a worker when the worker ends."""

    name = "close-judges"

    def teardown(self, worker: Any) -> None:
        """Called by Dask when the worker closes, or when the class has been graded."""
        for judge in [_judges.pop(thread) for thread in list(_judges)]:
            judge.__exit__()


def judge_all(
    dossiers: Sequence[Dossier], seed: int, *, workers: int, scheduler: str | None = None
) -> Iterator[tuple[Dossier, Judged]]:
    """Judge dossiers on `workers` threads here, or on the cluster at `scheduler`; yield each result when it is done.

    A submission that no worker finished counts as a machine fault. Raises ValueError if there is no cluster at that
    address.
    """
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # hide Dask's message about a timer when it closes
    settings = SILENT | {"distributed.scheduler.allowed-failures": RETRIES}
    with config.set(settings), _client(workers, scheduler) as client:
        _patiently(client.register_plugin, CloseJudges())
        try:
            futures = {_submit(client, dossier, seed): dossier for dossier in dossiers}
            for future in as_completed(list(futures)):
                yield futures[future], _result(futures[future], future)
        finally:
            with suppress(Exception):  # every submission has its verdict; the plugin ends with its worker
                _patiently(client.unregister_worker_plugin, CloseJudges.name)


def _result(dossier: Dossier, future: Future) -> Judged:
    """The worker's result, or refused verdicts if it failed."""
    try:
        return future.result()
    except Exception as error:
        return refused(dossier, "judged", error, fault=isinstance(error, KilledWorker))


def _patiently(tell_workers: Callable[[Any], Any], what: Any) -> None:
    """Call all workers, and retry if one dies meanwhile, as it is gone at the next try. Raises the last try's error."""
    for left in reversed(range(ATTEMPTS)):
        try:
            tell_workers(what)
            return
        except Exception:
            if not left:
                raise
            time.sleep(PAUSE)


def _submit(client: Client, dossier: Dossier, seed: int) -> Future:
    return client.submit(_judge_here, dossier, seed, pure=False, retries=RETRIES)  # the key contains no student's name


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
    """Judge with this thread's sandbox, which stays warm for the next submission."""
    judge = _judges.setdefault(threading.get_ident(), Judge())
    return judge_dossier(dossier, judge, seed)
