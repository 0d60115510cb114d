"""A deadlock is certain if all unfinished ranks wait and nothing moves. Any progress restarts the count."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from shardlab.meter import ledger
from shardlab.meter.ledger import DONE, WAITING, Writer
from shardlab.ranks import stall


@pytest.fixture
def clock(monkeypatch):
    """Checks are one interval apart, and no process of the test computes."""
    now = [0.0]

    def later():
        now[0] += 2 * stall.INTERVAL
        return now[0]

    monkeypatch.setattr(stall.time, "monotonic", later)
    monkeypatch.setattr(stall, "_processor_time", lambda pid: 0)
    monkeypatch.setattr(stall, "_is_asleep", lambda pid: True)
    return now


def a_waiting_rank():
    memory = ledger.new_ledger()
    writer = Writer(memory)
    writer.mark(writer.begin("recv", 0, 0, 4, (0, 1), "[1] float32", "here"), WAITING)
    return memory, writer


def looks_until_certain(watch, unfinished, most=50):
    return next((look for look in range(most) if watch.is_certain(unfinished)), None)


def test_ranks_that_all_wait_and_do_not_move(clock):
    watch = stall.StallWatch([a_waiting_rank()[0], a_waiting_rank()[0]])
    assert looks_until_certain(watch, {0: 1, 1: 2}) == stall.CERTAIN


def test_a_rank_that_does_not_wait_may_still_wake_the_others(clock):
    watch = stall.StallWatch([a_waiting_rank()[0], ledger.new_ledger()])
    assert looks_until_certain(watch, {0: 1, 1: 2}) is None
    assert looks_until_certain(watch, {0: 1}) == stall.CERTAIN  # the other has finished


def test_a_call_in_between_starts_the_count_again(clock):
    memory, writer = a_waiting_rank()
    watch = stall.StallWatch([memory])
    for _ in range(stall.CERTAIN):
        assert not watch.is_certain({0: 1})
    writer.mark(0, DONE)
    writer.mark(writer.begin("recv", 0, 0, 4, (0, 1), "[1] float32", "here"), WAITING)
    assert looks_until_certain(watch, {0: 1}) == stall.CERTAIN


def test_work_of_a_processor_is_movement(clock, monkeypatch):
    for step, looks in ((2 * stall.WORK, None), (stall.WORK // 2, stall.CERTAIN)):  # half of it, as of an idle thread
        times = iter(range(step, 1000 * step, step))
        monkeypatch.setattr(stall, "_processor_time", lambda pid, times=times: next(times))
        assert looks_until_certain(stall.StallWatch([a_waiting_rank()[0]]), {0: 1}) == looks


def test_a_rank_that_gets_no_processor_is_not_stuck(clock, monkeypatch):
    starved = {2}
    monkeypatch.setattr(stall, "_is_asleep", lambda pid: pid not in starved)
    watch = stall.StallWatch([a_waiting_rank()[0], a_waiting_rank()[0]])
    assert looks_until_certain(watch, {0: 1, 1: 2}) is None
    starved.clear()
    assert looks_until_certain(watch, {0: 1, 1: 2}) == stall.CERTAIN - 1


def test_without_ledgers_nothing_is_certain(clock):
    assert looks_until_certain(stall.StallWatch([]), {0: 1}) is None


def test_the_processor_time_of_a_process_grows():
    before = stall._processor_time(os.getpid())
    until = os.times().user + 0.05
    while os.times().user < until:
        pass
    assert stall._processor_time(os.getpid()) > before


def test_only_a_process_that_waits_for_an_event_is_asleep():
    def becomes(asleep, code, stopped=False):
        with subprocess.Popen([sys.executable, "-c", f"print(flush=True); {code}"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            if stopped:
                process.send_signal(signal.SIGSTOP)
            try:
                return any(stall._is_asleep(process.pid) is asleep or time.sleep(0.05) for _ in range(100))
            finally:
                process.kill()

    assert becomes(True, "import time; time.sleep(60)")
    assert becomes(False, "import time; time.sleep(60)", stopped=True)
    assert becomes(False, "exec('while True: pass')")
    assert becomes(False, "import threading; threading.Thread(target=lambda: sum(iter(int, 1))).start()")
    assert not stall._is_asleep(2**22 + 1)  # no such process


IN_ANOTHER_NAMESPACE = """
import subprocess, sys, time
from shardlab.ranks import stall
for code, asleep in (("import time; time.sleep(60)", True), ("exec('while True: pass')", False)):
    with subprocess.Popen([sys.executable, "-c", f"print(flush=True); {code}"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        shown = stall._pid_in_proc(process.pid)
        assert shown > 0 and shown != process.pid, (shown, process.pid)
        assert any(stall._is_asleep(process.pid) is asleep or time.sleep(0.05) for _ in range(100)), code
        process.kill()
"""


def test_a_process_is_found_from_a_namespace_whose_ids_proc_does_not_show():
    unshare = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("this system gives no namespace of processes")
    run = subprocess.run(
        [*unshare, sys.executable, "-c", IN_ANOTHER_NAMESPACE], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_where_proc_shows_no_process_the_processor_time_decides(monkeypatch):
    monkeypatch.setattr(stall, "_pid_in_proc", lambda pid: 0)
    assert stall._is_asleep(os.getpid())
