"""A session on a hostile machine. Prints the results and the bytes on the loopback interface as JSON."""

import json
import os
import sys
import time
from pathlib import Path

import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.collectives import ring_all_reduce

NUM_BYTES = 16 << 20


def exchange():
    tensor = torch.ones(NUM_BYTES // 4)
    with meter.record() as bill:
        work = dist.isend(tensor, dist.get_rank() ^ 1)
        dist.recv(torch.empty_like(tensor), dist.get_rank() ^ 1)
        work.wait()
    return bill.sent_bytes


def ring():
    with meter.record() as bill:
        ring_all_reduce(torch.ones(NUM_BYTES // 4), group=None)
    return bill.sent_bytes


def loopback_bytes():
    [line] = [line for line in Path("/proc/self/net/dev").read_text().splitlines() if line.strip().startswith("lo:")]
    return int(line.split()[1])


def measured(function, ranks):
    before = loopback_bytes()
    billed = sum(shardlab.run(function, ranks=ranks))
    return {"billed": billed, "carried": loopback_bytes() - before}


def can_write(folder):
    return os.access(folder, os.W_OK)


began = time.monotonic()
first = shardlab.run(dist.get_rank, ranks=4)
seconds = time.monotonic() - began
report = {
    "first": first,
    "seconds": seconds,
    "writable": [folder for folder in (".", "/tmp", "/var/tmp", "/dev/shm") if can_write(folder)],
    "exchange": measured(exchange, 2),
    "ring": measured(ring, 4),
}
json.dump(report, sys.stdout)
