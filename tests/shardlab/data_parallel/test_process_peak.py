"""A rank's process memory as counted by Linux: ZeRO-1 takes no more than torch's ZeroRedundancyOptimizer, ZeRO-2 less.

Measured with glibc's default way of returning memory. shardlab's ranks keep freed memory, which would hide most of the
difference: a hole left by a large tensor and half filled by a small one stays until the end.
"""

import ctypes
import threading
import time
from pathlib import Path

import pytest
import shardlab
import torch
from shardlab.data_parallel import DataParallel, Zero1, Zero2, Zero3
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

WIDTH, LAYERS, MIB = 1024, 16, 1 << 20  # 64 MiB of weights
M_MMAP_MAX, M_MMAP_THRESHOLD = -4, -3


def anonymous_bytes():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def optimizer_of(kind, model):
    match kind:
        case "torch ZeRO-1":
            return nn.parallel.DistributedDataParallel(model), ZeroRedundancyOptimizer(
                model.parameters(), torch.optim.AdamW
            )
        case "DDP":
            return DataParallel(model), torch.optim.AdamW(model.parameters())
        case "ZeRO-3":
            return model, Zero3(model, torch.optim.AdamW, units=list(model))
    return model, {"ZeRO-1": Zero1, "ZeRO-2": Zero2}[kind](model, torch.optim.AdamW)


def most(kind):
    """The peak bytes of this process in three steps, minus what it had before the model was built."""
    torch.set_num_threads(1)
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 1 << 16)
    libc.mallopt(M_MMAP_THRESHOLD, MIB)
    before, seen, is_over = anonymous_bytes(), [0], threading.Event()

    def watch():
        while not is_over.is_set():
            seen.append(anonymous_bytes())
            time.sleep(0.001)

    watching = threading.Thread(target=watch)
    watching.start()
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
    forward, optimizer = optimizer_of(kind, model)
    for _ in range(3):
        forward(torch.ones(8, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    is_over.set()
    watching.join()
    return max(seen) - before


@pytest.mark.slow
def test_each_stage_takes_less_and_the_first_no_more_than_torch():
    kinds = ["torch ZeRO-1", "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"]
    peak = {kind: max(shardlab.run(most, kind, ranks=4, timeout=120, observe=False)) / MIB for kind in kinds}
    assert peak["ZeRO-1"] <= peak["torch ZeRO-1"] + 8, peak  # a few MiB of noise
    assert peak["DDP"] > peak["ZeRO-1"] + 15 and peak["ZeRO-1"] > peak["ZeRO-2"] and peak["ZeRO-3"] < 120, peak
