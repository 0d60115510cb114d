"""Hangs are explained, with advice."""

import queue
import subprocess
import threading
import time
from concurrent.futures import Future

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.meter.ledger import DONE, MOST_NOTES, WAITING, Entry
from shardlab.ranks.call import Outcome, RankEnd
from shardlab.ranks.explain import explain, first_divergence, misread_messages

from tests.shardlab.ranks import calls_to_report as calls

# ---- The report of a call: from only exit states and ledgers, and of calls that torch does not report. ---------------

RIGHT = RankEnd(result=b"")
LOST_PEER = RankEnd(error="RuntimeError: [gloo/transport/tcp/pair.cc] Connection closed by peer [127.0.0.1]:1")


def entry(kind, peer=-1, *, state=DONE, size=4, members="0,1", tag=0):
    return Entry(state, kind, peer, tag, 4 * size, members, f"[{size}] float32", "line 1 of your cell")


def ledger(*entries):
    return len(entries), list(entries)


def test_a_call_that_went_well_has_no_report():
    assert explain(Outcome([RIGHT, RIGHT], 0.1), [ledger(), ledger()], 20) is None


def test_the_rank_that_raised_is_blamed_and_not_the_one_that_lost_its_peer():
    ends = [LOST_PEER, RankEnd(error="Traceback ...\nKeyError: 'weights'")]
    report = explain(Outcome(ends, 0.1), [ledger(entry("recv", 1, state=WAITING)), ledger()], 20)
    assert report.startswith("Rank 1 failed")
    assert "rank 0 was in recv from rank 1 ([4] float32), line 1 of your cell when a peer went away" in report
    assert report.endswith("rank 1 raised first:\nTraceback ...\nKeyError: 'weights'")


@pytest.mark.parametrize(("code", "words"), [(-11, "was killed by SIGSEGV"), (3, "left with exit code 3")])
def test_a_rank_that_died_is_blamed(code, words):
    report = explain(Outcome([LOST_PEER, RankEnd(exit_code=code)], 0.1), [ledger(), ledger()], 20)
    assert report.startswith("Rank 1 failed")
    assert words in report


def test_the_order_of_collectives_is_compared_within_each_group():
    same = [ledger(entry("barrier"), entry("all_reduce")), ledger(entry("barrier"), entry("all_reduce"))]
    other_group = [ledger(entry("all_reduce", members="0,2")), ledger(entry("broadcast", members="1,3"))]
    shorter = [ledger(entry("barrier"), entry("all_reduce")), ledger(entry("barrier"))]
    for ledgers in (same, other_group, shorter):
        assert first_divergence(ledgers) == []
    swapped = [ledger(entry("barrier"), entry("all_reduce")), ledger(entry("barrier"), entry("broadcast"))]
    assert first_divergence(swapped)[0].startswith("The ranks diverge at collective #2: rank 0 called all_reduce")
    sizes = [ledger(entry("all_reduce", size=4)), ledger(entry("all_reduce", size=5))]
    assert len(first_divergence(sizes)) == 1


def test_messages_are_matched_by_peer_and_tag_in_order():
    sent = ledger(entry("send", 1, size=4, tag=1), entry("send", 1, size=8, tag=2), entry("send", 1, size=2, tag=1))
    right = ledger(entry("recv", 0, size=8, tag=2), entry("recv", 0, size=4, tag=1), entry("recv", 0, size=2, tag=1))
    wrong = ledger(entry("recv", 0, size=8, tag=2), entry("recv", 0, size=2, tag=1), entry("recv", 0, size=4, tag=1))
    assert misread_messages([sent, right]) == []
    first, second = misread_messages([sent, wrong])
    assert first.startswith("Message 1 from rank 0 to rank 1: sent as [4] float32")
    assert second.startswith("Message 2 from rank 0 to rank 1: sent as [2] float32")


def a_stack(*frames):
    return "\n".join(f'  File "{file}", line {line} in {function}' for file, line, function in frames)


def test_a_rank_in_new_group_waits_and_does_not_compute():
    torchs = "/site/lib/python3.11/torch/distributed/distributed_c10d.py"
    inside = a_stack((torchs, 5800, "_store_based_barrier"), (torchs, 5934, "new_group"), ("<week09>", 3, "groups"))
    beside = a_stack(("<week09>", 9, "new_group_of_my_own"))
    ends = [RankEnd(stack=inside), RankEnd(stack=beside), RIGHT]
    report = explain(Outcome(ends, 4.0, timed_out=True), [ledger(), ledger(), ledger()], 4)
    assert "rank 0 waits in new_group before any communication, at line 3 of your cell, in groups()" in report
    assert "rank 1 was still computing" in report
    assert "In new_group, rank 0 waits for the others: all ranks must call new_group" in report
    assert "No rank waits" not in report

    pending = ledger(entry("send", 1, state=WAITING))
    report = explain(Outcome([RankEnd(stack=inside)] * 2, 4.0, timed_out=True), [pending, ledger()], 4)
    assert "rank 0 waits in new_group after 1 call" in report  # it is not waiting in the pending isend
    assert "In new_group, ranks 0, 1 wait for the others" in report


KINDS = sorted(calls.COLLECTIVES)
CALLED = {
    "all_gather_into_tensor": "all_gather",
    "all_gather_single": "all_gather",
    "all_reduce_coalesced": "all_reduce",
}
CALLED |= {"reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_single": "reduce_scatter"}
CALLED |= {"all_to_all_single": "all_to_all"}


def told(capsys, function, *args, ranks=2):
    shardlab.run(function, *args, ranks=ranks, transport="gloo")
    return [line for line in capsys.readouterr().err.splitlines() if "still running" not in line]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != calls.FUTURE])
def test_a_handle_that_nobody_waits_for_is_reported(capsys, kind):
    (line,) = told(capsys, calls.dropped, kind)
    assert line.startswith(f"ranks 0, 1 never waited for {CALLED.get(kind, kind)}(async_op=True)")
    assert "of calls_to_report.py" in line
    assert "call .wait() on it" in line


@pytest.mark.parametrize("batch", [False, True])
def test_messages_that_nobody_waits_for_are_reported(capsys, batch):
    text = "\n".join(told(capsys, calls.dropped_messages, batch))
    assert "rank 0 never waited for isend to rank 1 ([4] float32), line " in text
    assert "rank 1 never waited for irecv from rank 0 ([4] float32), line " in text
    assert "its message may not have left" in text and "its result may not be there yet" in text


def test_many_dropped_handles_end_in_a_bounded_report(capsys):
    assert len(told(capsys, calls.every_kind_dropped)) == MOST_NOTES


@pytest.mark.parametrize("how", ["wait", "another handle", "polling", "future"])
def test_a_handle_that_is_looked_after_is_no_news(capsys, how):
    assert told(capsys, calls.every_kind_looked_after, how) == []


def test_what_torch_waits_for_itself_is_no_news(capsys):
    assert told(capsys, calls.every_kind_synchronous) == []


@pytest.mark.parametrize("first", range(0, len(KINDS) + len(calls.OBJECTS), MOST_NOTES))
def test_a_call_of_a_rank_outside_the_group_is_reported(capsys, first):
    kinds = [*KINDS, *sorted(calls.OBJECTS)][first : first + MOST_NOTES]
    lines = told(capsys, calls.outside, kinds, ranks=3)
    assert len(lines) == len(kinds)
    for kind, line in zip(kinds, lines, strict=True):
        name = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter"}.get(kind, kind)
        assert line.startswith(f"rank 2 called {name}") and "on a group that it is not in, line " in line
        assert "pass a group that contains this rank" in line


@pytest.mark.parametrize("kind", ["isend", "irecv", "recv"])
def test_a_message_of_a_rank_outside_the_group_is_reported(capsys, kind):
    (line,) = told(capsys, calls.outside_messages, kind, ranks=3)
    assert line.startswith(f"rank 2 called {'irecv' if kind == 'recv' else kind} on a group that it is not in")


def test_a_blocking_send_outside_the_group_gets_advice():
    with pytest.raises(shardlab.RanksFailed, match="is not in the group that it uses"):
        shardlab.run(calls.outside_messages, "send", ranks=3, transport="gloo")


# ---- Advice for ranks that no message can wake, that print endlessly, or whose groups are gone. ----------------------


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
