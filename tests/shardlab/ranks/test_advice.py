"""Advice for ranks that no message can wake, that print endlessly, or whose groups are gone."""

import queue
import subprocess
import threading
import time
from concurrent.futures import Future

import pytest
import shardlab
import torch
import torch.distributed as dist


def layer(tensor, tp_group):
    dist.all_reduce(tensor)


class Layer:
    def __init__(self, group):
        self.group = group

    def forward(self, tensor):
        helper(tensor)


def helper(tensor):
    dist.all_reduce(tensor)


def two_locks():
    first, second = threading.Lock(), threading.Lock()

    def other():
        with second:
            time.sleep(0.2)
            with first:
                pass

    threading.Thread(target=other).start()
    with first:
        time.sleep(0.2)
        with second:
            pass


def taken_twice():
    lock = threading.Lock()
    with lock, lock:
        pass


def joined_for_ever():
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    thread.join()


def printing_for_ever():
    while True:
        print("all work and no play makes jack a dull boy")


def computing_for_ever():
    while True:
        pass


WAITS = {
    "a lock": (taken_twice, "waits for a lock, or sleeps", "Release a lock before you take it again"),
    "two locks": (two_locks, "waits for a lock, or sleeps", "another of its threads is at line"),
    "join": (joined_for_ever, "waits for a thread that does not end", "before you join it"),
    "event": (lambda: threading.Event().wait(), "waits for a lock, an event or a condition", "Set an event"),
    "queue": (lambda: queue.Queue().get(), "waits for a queue", "Put an item into it"),
    "future": (lambda: Future().result(), "waits for a future", "result(timeout=...)"),
    "process": (
        lambda: subprocess.run(["sleep", "60"], check=False),
        "waits for another process",
        "give the call a timeout=",
    ),
    "sleep": (lambda: time.sleep(60), "waits for a lock, or sleeps", ""),
    "prints": (printing_for_ever, "was still printing", "a loop that prints does not end"),
    "loop": (computing_for_ever, "was still computing", "a loop does not end"),
}


@pytest.mark.parametrize("what", sorted(WAITS))
def test_a_rank_that_no_message_can_wake_gets_the_advice_that_fits(what, capsys):
    function, state, remedy = WAITS[what]
    with pytest.raises(shardlab.RanksFailed) as failed:
        shardlab.run(function, ranks=1, timeout=1.5, transport="gloo")
    text = str(failed.value)
    assert f"rank 0 {state}" in text and remedy in text, text
    assert len(capsys.readouterr().out) < 300_000


def in_a_group(way):
    group = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        return
    if way == "argument":
        layer(torch.ones(2), group)
    else:
        Layer(group).forward(torch.ones(2))


@pytest.mark.parametrize(("way", "name"), [("argument", "tp_group of layer()"), ("self", "self.group of forward()")])
def test_the_report_names_a_call_in_the_world_instead_of_the_group(way, name):
    with pytest.raises(shardlab.RanksFailed) as failed:
        shardlab.run(in_a_group, way, ranks=3, timeout=6, transport="gloo")
    assert "uses the world group, which has all ranks, although" in str(failed.value) and name in str(failed.value)


def ended_early(way):
    group, tensor = dist.new_group([0, 1]), torch.ones(2)
    if way == "world":
        dist.destroy_process_group()
        dist.all_reduce(tensor)
    elif way == "group":
        dist.destroy_process_group(group)
        dist.all_reduce(tensor, group=group)
    elif way == "one rank":
        dist.all_reduce(tensor)
        if dist.get_rank() == 0:
            return dist.destroy_process_group()
        time.sleep(0.3)
        dist.all_reduce(tensor)
    elif way == "twice":
        dist.init_process_group("gloo")
    else:
        input("Your name? ")


GROUPS = {
    "world": "There is no process group: destroy_process_group() was already called",
    "group": "the group was destroyed, or was created for other ranks",
    "one rank": "The connection to rank 0 was closed early: destroy_process_group() was called there",
    "twice": "remove the call to init_process_group()",
    "input": "A rank cannot read from the keyboard: ask before the call",
}


@pytest.mark.parametrize("way", sorted(GROUPS))
def test_groups_that_are_gone_and_questions_get_advice(way):
    with pytest.raises(shardlab.RanksFailed) as failed:
        shardlab.run(ended_early, way, ranks=2, timeout=6, transport="gloo")
    assert GROUPS[way] in str(failed.value)
