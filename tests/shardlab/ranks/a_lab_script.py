"""A lab script, started by `torchrun` or by hand. Prints what every rank received and sent."""

import sys

import torch
from shardlab import meter
from shardlab.collectives import ring_all_reduce
from shardlab.ranks.inside import torchrun_group

with torchrun_group() as group:
    with meter.record() as bill:
        total = ring_all_reduce(torch.full((8,), float(group.rank())), group=group)
    line = f"rank {group.rank()} of {group.size()}: {total[0].item():g}, {bill.sent_bytes:g} bytes\n"
    sys.stdout.write(line)  # in one call: ranks share the pipe, and print() may write the newline separately
