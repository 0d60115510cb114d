"""A notebook's kernel in a process of its own: it is interrupted, loses its worker, goes on, and is killed."""

import signal
import time

import shardlab
import torch.distributed as dist

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it


def say_and_wait(words):
    if dist.get_rank() == 0:
        print(words)
    time.sleep(1000)


print("first", shardlab.run(dist.get_rank, ranks=2), flush=True)
try:
    shardlab.run(say_and_wait, "waiting for Ctrl-C", ranks=2, timeout=600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("second", shardlab.run(dist.get_rank, ranks=2), flush=True)
input()
print("third", shardlab.run(dist.get_rank, ranks=2), flush=True)
shardlab.run(say_and_wait, "waiting to be killed", ranks=2, timeout=600)
