"""Rank processes: cold starts, threads, shared memory, and nothing left behind when a call ends."""

import os
import platform
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import cloudpickle
import psutil
import pytest
import shardlab
import torch
import torch.distributed as dist
from notebook_cell import run_cell
from shardlab import meter
from shardlab.collectives import ring_all_reduce
from shardlab.ranks import travel, warm
from shardlab.ranks.inside import torchrun_group
from shardlab.ranks.shared_pages import LARGE, _private_memory
from shardlab.ranks.travel import by_value, pack

from tests.fixed_set import WHOLE

# A cold torchrun and the warm worker give the same results, failures, prints, and one group of real processes


def lesson(number):
    tensor = torch.arange(5.0) + number + dist.get_rank()
    with meter.record() as bill:
        total = ring_all_reduce(tensor, group=dist.group.WORLD)
    print("hello")
    surroundings = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS")}
    return total, bill.sent_bytes, bill.kinds, surroundings, torch.get_num_threads(), os.getcwd()


@lru_cache
def on_ranks(launcher):
    return shardlab.run(lesson, shardlab.PerRank([10, 20]), ranks=2, launcher=launcher, transport="gloo")


@pytest.mark.slow
def test_warm_and_cold_are_equal():
    for one, other in zip(on_ranks("warm"), on_ranks("torchrun"), strict=True):
        assert torch.equal(one[0], other[0])
        assert one[1:] == other[1:]


@pytest.mark.slow
def test_a_cold_failure_has_the_same_words(capsys):
    cell = run_cell("""
        import torch.distributed as dist

        def fail():
            print("about to fail")
            if dist.get_rank() == 1:
                raise ValueError("not today")
            dist.barrier()
        """)
    with pytest.raises(shardlab.RanksFailed) as failure:
        shardlab.run(cell["fail"], ranks=2, launcher="torchrun", transport="gloo")
    report = str(failure.value)
    assert report.startswith("Rank 1 failed, which ended the call on 2 ranks.")
    assert 'raise ValueError("not today")' in report
    assert "[rank 0] about to fail" in capsys.readouterr().out


@pytest.mark.slow
def test_a_lab_script_under_plain_torchrun():
    script = Path(__file__).with_name("a_lab_script.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 2: 1, 32 bytes" for rank in (0, 1)], done.stderr


def test_a_lab_script_without_torchrun_says_how_to_start_it():
    with (
        pytest.raises(RuntimeError, match="start this script with `torchrun --nproc-per-node 4 SCRIPT`"),
        torchrun_group(),
    ):
        pass


# Several threads call at once, like two widgets of a notebook: all results are right, and nothing is left over


def numbered(number):
    return number, dist.get_rank()


def registered():
    return set(cloudpickle.list_registry_pickle_by_value())


def test_a_module_stays_on_the_list_until_the_last_thread_has_packed():
    """The other thread is held in the middle of its call, so the result does not depend on timing."""
    before, inside, finish = registered(), threading.Event(), threading.Event()

    def other():
        with by_value(numbered):
            inside.set()
            finish.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30)
    assert pack(numbered, (1,)) and __name__ in registered()
    finish.set()
    thread.join(30)
    assert registered() == before and travel._users[__name__] == 0


def test_two_functions_of_one_module_travel_together():
    before = registered()
    with by_value(numbered), by_value(registered):
        pass
    assert registered() == before


def test_what_cannot_travel_leaves_the_list_as_it_was():
    before = registered()
    with pytest.raises(TypeError, match="cannot be sent"):
        pack(numbered, (threading.Lock(),))
    assert registered() == before


def test_eight_threads_call_five_times_each():
    before = registered()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: shardlab.run(numbered, number, ranks=2, timeout=60), range(40)))
    assert answers == [[(number, 0), (number, 1)] for number in range(40)]
    assert registered() == before
    children = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    commands = [" ".join(child.cmdline()) for child in children]
    assert sum("shardlab.ranks.worker" in command for command in commands) == 1


def test_threads_that_call_first_start_one_worker(monkeypatch):
    made = []

    class Slow:
        is_alive = True

        def __init__(self):
            made.append(self)
            threading.Event().wait(0.2)

        def close(self):
            pass

    monkeypatch.setattr(warm, "WarmWorker", Slow)
    monkeypatch.setattr(warm, "_worker", None)
    with ThreadPoolExecutor(4) as pool:
        workers = list(pool.map(lambda _: warm.worker(), range(4)))
    assert len(made) == 1 and workers == made * 4


# Ready to be forked: imports are in large pages, and a rank that writes changes only its own copy


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

from tests.fixed_set import WHOLE

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


CALLS = 200 if WHOLE else 60


def test_strays_of_a_rank_are_ended_and_do_not_hold_up_its_result():
    def leave_strays():
        sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        pid = os.fork()  # like a data loader's worker, it keeps every pipe of its rank open
        if pid == 0:
            os.setsid()
            time.sleep(1000)
        return [sleeper.pid, pid]

    began = time.monotonic()
    strays = [pid for pids in shardlab.run(leave_strays, ranks=2) for pid in pids]
    assert time.monotonic() - began < 15
    assert len(strays) == 4
    assert not any(psutil.pid_exists(pid) for pid in strays)


def test_an_ended_call_leaves_no_process():
    def spin():
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print(os.getpid())
        while True:
            pass

    with pytest.raises(shardlab.RanksFailed):
        shardlab.run(spin, ranks=2, timeout=0.5)
    assert worker_process().children(recursive=True) == []


def worker_process():
    [worker] = psutil.Process(warm.worker()._process.pid).children()
    return worker


def traces():
    """Everything that a leak would increase: processes, descriptors and sockets of worker and test, shared memory."""
    worker = worker_process()
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "worker's files": worker.num_fds(),
        "our files": psutil.Process().num_fds(),
        "sockets": len(worker.net_connections()) + len(psutil.Process().net_connections()),
        "shared memory": sorted(path.name for path in Path("/dev/shm").glob("[!.]*")),  # a browser's begin with a dot
    }


@pytest.mark.slow
def test_many_calls_leave_nothing_and_memory_stays_flat():
    def all_reduce():
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        return tensor

    for _ in range(5):
        shardlab.run(all_reduce, ranks=2)
    before, memory = traces(), worker_process().memory_info().rss
    for _ in range(CALLS):
        shardlab.run(all_reduce, ranks=2)
    assert traces() == before
    assert worker_process().memory_info().rss - memory < 4 << 20
