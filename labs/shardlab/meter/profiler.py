"""Record a step with torch's profiler: which operators and messages ran, and when."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

WARM_UP = 3


def trace_of_step(step: Callable[[], object]) -> bytes:
    """Run a step several times and record the last run, as a gzipped Chrome trace that Perfetto can open.

    Call it on every rank; `figures.draw_profile` draws the traces of all ranks. On a GPU, traces include the kernels.
    """
    on_gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    for _ in range(WARM_UP):
        step()
    for _ in range(2):  # the first profile starts the tracer
        with _quiet(), profile(activities=activities) as seen:
            dist.barrier()
            step()
            if on_gpu:
                torch.cuda.synchronize()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        return gzip.compress(path.read_bytes())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence standard error, because the profiler's library writes two lines at each start and stop."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
