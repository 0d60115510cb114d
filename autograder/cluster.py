"""Judge many submissions side by side with Dask: threads of this process, or the workers of a cluster.

A worker of a cluster is started in the project's environment with `dask worker tcp://HOST:8786`. It gets dossiers and
gives verdicts; files, gradebook and expected points of others stay on the machine that grades. A lost worker's
submissions are judged by another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from dask import config
from distributed import Client, Future, WorkerPlugin, as_completed

from autograder.dossier import Dossier
from autograder.grade import Judged, judge_dossier
from autograder.judge import Judge

RETRIES = 3  # times that a submission is given to another worker after its own was lost
ANSWER_LIMIT = "10s"

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

    Raises ValueError when there is no cluster at that address, RuntimeError for a submission that no worker finished.
    """
    with config.set({"distributed.scheduler.allowed-failures": RETRIES}), _client(workers, scheduler) as client:
        client.register_plugin(CloseJudges())
        try:
            futures = {_submit(client, dossier, seed): dossier for dossier in dossiers}
            for future, judged in as_completed(list(futures), with_results=True):
                yield futures[future], judged
        finally:
            client.unregister_worker_plugin(CloseJudges.name)


def _submit(client: Client, dossier: Dossier, seed: int) -> Future:
    return client.submit(_judge_here, dossier, seed, key=f"{dossier.week}/{dossier.student}", retries=RETRIES)


def _client(workers: int, scheduler: str | None) -> Client:
    if scheduler is None:
        return Client(
            processes=False,
            n_workers=1,
            threads_per_worker=workers,
            dashboard_address="127.0.0.1:0",
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
