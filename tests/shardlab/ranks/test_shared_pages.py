"""Ready to be forked: what is imported lies in large pages, and a rank that writes changes its own copy alone."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shardlab.ranks.shared_pages import LARGE, _private_memory

MAPS = """\
555500100000-555500900000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000a00000 r-xp 00000000 fe:00 4711                       /usr/lib/of two words.so
7f0000a00000-7f0000e00000 rw-p 00a00000 fe:00 4711                       /usr/lib/of two words.so
7f0001000000-7f0001400000 rw-s 00000000 00:01 0
7f0001500000-7f00016ff000 rw-p 00000000 00:00 0
7f0001800000-7f0001c00000 rw-p 00000000 00:00 0
"""
PROGRAM = """
import os, re, sys
import torch
from shardlab.ranks.shared_pages import prepare_to_fork

def large():
    return sum(int(size) for size in re.findall(r"AnonHugePages: +([0-9]+) kB", open("/proc/self/smaps").read()))

mine, before = torch.ones(1 << 21), large()
prepare_to_fork()
print(large() - before)
sys.stdout.flush()
child = os.fork()
if child == 0:
    mine.add_(1)
    os._exit(int(mine.eq(2).all()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(mine.eq(1).all()))
"""


def collapses() -> bool:
    version = tuple(int(part) for part in re.findall(r"[0-9]+", platform.release())[:2])
    return sys.platform == "linux" and version >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").exists()


def test_only_whole_large_pages_of_private_memory_are_gathered():
    assert _private_memory(MAPS) == [(0x555500200000, 3 * LARGE), (0x7F0001800000, 2 * LARGE)]


@pytest.mark.skipif(not collapses(), reason="needs Linux 6.1 with large pages")
def test_imports_lie_in_large_pages_and_a_forked_rank_writes_its_own_copy():
    words = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    gathered, copies = told.stdout.splitlines()
    assert int(gathered) > 8 << 10  # kB; torch and its imports have about 100 MiB
    assert copies == "1 1"
