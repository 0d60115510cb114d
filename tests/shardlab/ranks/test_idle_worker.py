"""A worker without calls ends by itself, and the next call starts a new one without an error."""

from multiprocessing import Pipe

import psutil
import pytest
import shardlab
import torch.distributed as dist
from shardlab.ranks import warm, worker

LIMIT = 60  # seconds for a process to end by itself on a busy machine


@pytest.fixture
def own_worker(monkeypatch):
    """A separate worker for this test; the session's worker comes back afterwards."""
    monkeypatch.setattr(warm, "_worker", None)
    yield monkeypatch
    if warm._worker is not None:
        warm._worker.close()


def family(started):
    process = psutil.Process(started._process.pid)
    return [process, *process.children(recursive=True)]


def test_a_worker_without_calls_stops_serving():
    notebook, own = Pipe()
    worker.serve(own, idle_seconds=0)  # returns, although the notebook is still connected
    notebook.close()
    with pytest.raises(EOFError):
        own.recv()


@pytest.mark.slow
def test_the_processes_end_by_themselves(own_worker):
    own_worker.setattr(warm, "IDLE_GRACE", -warm.IDLE_LIMIT)
    started = warm.worker()
    _, alive = psutil.wait_procs(family(started), timeout=LIMIT)
    assert not alive and not started.is_alive


@pytest.mark.slow
def test_the_next_call_replaces_a_worker_that_was_idle(own_worker):
    assert shardlab.run(dist.get_rank, ranks=2) == [0, 1]
    first = warm.worker()
    processes = family(first)
    assert len(processes) > 1 and first.is_alive
    first._last_used -= warm.IDLE_LIMIT
    assert not first.is_alive
    assert shardlab.run(dist.get_rank, ranks=2) == [0, 1]
    assert warm.worker() is not first and not any(one.is_running() for one in processes)


@pytest.mark.slow
def test_a_call_counts_as_use(own_worker):
    started = warm.worker()
    started._last_used = before = started._last_used - warm.IDLE_LIMIT / 2
    assert shardlab.run(dist.get_rank, ranks=1) == [0]
    assert warm.worker() is started and started._last_used > before


def test_a_worker_outlives_the_moment_at_which_it_is_no_longer_used():
    assert warm.IDLE_GRACE >= 60
