"""The zygote rehearses a rank's first steps, and nothing of it stays but what torch and Python keep of them."""

import os
import subprocess
import sys

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from autograder.jobs import tags
from autograder.jobs.rehearsal import rehearse
from shardlab.meter.record import recording

def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

torch.set_num_threads(1)
tags.ignore()
os.environ.pop("RANK", None)
before = held(), dict(os.environ), set(sys.modules)
rehearse()
assert held() == before[0], (held(), before[0])
assert dict(os.environ) == before[1]
assert not dist.is_initialized() and dist.distributed_c10d._world.group_count == 0
assert not {"notebook"} & set(sys.modules)
assert "send" in torch.ops.c10d.__dict__, "the first message would look its operator up"
rehearse()  # and again: it stands in no one's way
"""


def test_a_rehearsal_leaves_no_group_no_thread_and_no_file():
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", PROGRAM],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout and not done.stderr, "what ranks print must not begin with this"
