"""What is seen of an answer from outside: packets, keys and memory."""

import json
import os
import struct
import subprocess
import sys
from dataclasses import asdict, fields
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder import weeks
from autograder.checks.packets import ObservedCall, calls_of_ranks, crossed, other_kind, other_than_billed, size
from autograder.jobs import message, plain
from autograder.jobs.message import End, Report, Request
from autograder.jobs.wire import Tap
from autograder.matrices import forged, kill_matrix, known
from tests.fixed_set import HOSTILE_VALUES

# ---- Packets of a rank and the calls that they prove; messages across the trust boundary are checked field by field. -

# ---- Attribution of bytes: two ranks may have the same port, as long as their peers' ports differ --------------------


def frame(num_bytes: int, *, opcode: int = 1, slot: int = 0) -> bytes:
    """Make a gloo frame that carries `num_bytes`, or announces (2) or requests (3) that many."""
    carried = num_bytes if opcode == 1 else 0
    return struct.pack("<QQQQQQ", 48 + carried, opcode, slot, 0, num_bytes, 0) + bytes(carried)


def noted(sockets: dict, packets: list, monkeypatch) -> Tap:
    """Make a tap that has received these notes, {rank: connections}, and packets, (ports, place, bytes)."""
    tap = Tap.__new__(Tap)
    tap.num_noted, tap._lost, tap._noted = 0, 0, {}
    tap._socket = Mock(getsockopt=Mock(return_value=bytes(8)))
    tap.notes_out, notes_in = os.pipe()
    for rank, own in sockets.items():
        os.write(notes_in, json.dumps([rank, own]).encode() + b"\n")
    os.close(notes_in)
    monkeypatch.setattr(tap, "_data", lambda: iter(packets))
    return tap


def test_two_ranks_with_one_port_are_told_apart(monkeypatch):
    # rank 1 and rank 2 both connected from port 40000: to rank 0, which listens on 50000, and to rank 3, on 53000
    sockets = {
        0: [(50000, 40000, 0, -1)],
        1: [(40000, 50000, 0, -1)],
        2: [(40000, 53000, 0, -1)],
        3: [(53000, 40000, 0, -1)],
    }
    packets = [((40000, 50000), 0, frame(100)), ((40000, 53000), 0, frame(7)), ((53000, 40000), 0, frame(30))]
    tap = noted(sockets, packets, monkeypatch)
    rows, _ = tap.read()
    assert sorted(rows) == [[1, 0, "message", 1, 100], [2, 3, "message", 1, 7], [3, 2, "message", 1, 30]]
    assert tap.num_noted == 4
    os.close(tap.notes_out)


TWO = {0: [(1, 2, 0, -1)], 1: [(2, 1, 0, -1)]}


def test_a_message_in_pieces_is_one_send_and_one_receive(monkeypatch):
    whole = frame(8, opcode=2, slot=5) + frame(8, slot=5)
    packets = [((2, 1), 0, frame(8, opcode=3, slot=5)), ((1, 2), 0, whole[:60]), ((1, 2), 60, whole[60:])]
    tap = noted(TWO, packets, monkeypatch)
    rows, calls = tap.read()
    assert rows == [[0, 1, "message", 1, 8]]
    assert calls == [[1, "recv", -1, 5, 0, 8, 8], [0, "send", -1, 5, 1, 8, 8]]


def test_what_is_announced_and_never_travels_is_no_send(monkeypatch):
    tap = noted(TWO, [((1, 2), 0, frame(8, opcode=2))], monkeypatch)
    assert tap.read() == ([], [])


def test_collectives_are_told_apart_by_their_number(monkeypatch):
    first, second = (4 << 56 | number << 24 for number in (7, 8))
    packets = [
        ((1, 2), 0, frame(4, slot=first)),
        ((2, 1), 0, frame(4, slot=first)),
        ((1, 2), 52, frame(6, slot=second)),
    ]
    tap = noted(TWO, packets, monkeypatch)
    _, calls = tap.read()
    assert calls == [
        [0, "all_reduce", -1, 7, -1, 4, 8],
        [1, "all_reduce", -1, 7, -1, 4, 8],
        [0, "all_reduce", -1, 8, -1, 6, 6],
    ]


@pytest.mark.parametrize(
    ("packets", "row"),
    [
        ([((1, 2), 0, b"no frame of gloo's at all, " * 3)], [0, 1, "unknown", 1, 81]),
        ([((1, 2), 0, frame(8)[:50])], [0, 1, "unknown", 1, 6]),  # cut short
        ([((9, 9), 0, b"words")], [-1, -1, "unknown", 1, 5]),
    ],
)
def test_other_bytes_are_unknown(monkeypatch, packets, row):
    rows, _ = noted(TWO, packets, monkeypatch).read()
    assert row in rows


def test_a_missing_packet_leaves_nothing_to_be_told(monkeypatch):
    assert noted(TWO, [((1, 2), 48, frame(8))], monkeypatch).read() is None


@pytest.mark.slow
@HOSTILE_VALUES
@given(st.lists(st.tuples(st.sampled_from([(1, 2), (2, 1), (9, 9)]), st.integers(0, 200), st.binary(max_size=200))))
def test_no_bytes_of_a_rank_end_the_reading(packets):
    with pytest.MonkeyPatch.context() as patch:
        tap = noted(TWO, packets, patch)
        tap.read()
        os.close(tap.notes_out)


FEW_PORTS = """
import os
from autograder.jobs import confine, job
settle = confine.settle

def settle_with_few_ports(masked):
    settle(masked)
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
        file.write("40000 40019")

confine.settle = settle_with_few_ports
from autograder.jobs import zygote
zygote.main()
"""

GRADES = """
import sys
from unittest.mock import Mock
from autograder import weeks
from autograder.matrices import kill_matrix
from autograder.matrices import known
from autograder.sandboxes import zygote
from autograder.judging.judge import Judge

if {few_ports}:
    popen = zygote.subprocess.Popen
    def started(command, **options):
        if "autograder.jobs.zygote" in command:
            place = command.index("-m")
            command = [*command[:place], "-c", {source!r}, *command[place + 2 :]]
        return popen(command, **options)
    zygote.subprocess.Popen = started
check = weeks.find("week01.ring-reduce-scatter")
right = known.right_of(check.exercise).source
answer = {{"preamble": kill_matrix.PREAMBLE, "cells": [[check.exercise, right, True]]}}
with Judge() as judge:
    for seed in range(4):
        print(judge.judge(check, answer, seed, [{{"ranks": 4, "numbers": 37, "subgroup": [1, 2, 3]}}]).text)
"""


@pytest.mark.slow
@pytest.mark.isolated(3)
def test_an_honest_answer_keeps_its_points_where_ports_are_shared():
    """Twenty ports for seven listeners and nine connections: Linux gives several ranks the same port."""
    script = GRADES.format(few_ports=True, source=FEW_PORTS)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["Correct."] * 4, done.stdout + done.stderr


# ---- What was sent: kinds, calls, bytes that leave a node ------------------------------------------------------------


MESSAGES = [[0, 1, "message", 2, 12], [1, 0, "message", 1, 8]]


def test_messages_are_fine_and_a_silent_rank_too():
    assert other_kind(MESSAGES, ("send", "recv")) is None


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([*MESSAGES, [1, 0, "all_reduce", 4, 8]], "Rank 1 calls all_reduce; this exercise allows only send and recv"),
        ([[-1, -1, "unknown", 1, 8]], "writes to a connection directly"),
    ],
)
def test_what_is_no_message_is_named(rows, sentence):
    assert sentence in (other_kind(rows, ("send", "recv")) or "")


@pytest.mark.parametrize(
    ("kind", "own", "total", "due"),
    [
        ("all_reduce", 528, 1600, ObservedCall("all_reduce", [0, 2, 3], None, 400, 1600 / 3, 7)),
        ("all_gather", 80, 240, ObservedCall("all_gather", [0, 2, 3], None, 120, 80.0, 7)),
        ("reduce_scatter", 80, 240, ObservedCall("reduce_scatter", [0, 2, 3], None, 120, 80.0, 7)),
        ("broadcast", 0, 800, ObservedCall("broadcast", [0, 2, 3], None, 400, 800 / 3, 7)),
        ("all_to_all", 80, 240, ObservedCall("all_to_all", [0, 2, 3], None, 80, 80, 7)),
    ],
)
def test_a_collective_is_told_by_what_all_its_ranks_carried(kind, own, total, due):
    groups = [None, [0, 2, 3]]
    found = calls_of_ranks([[2, kind, 1, 7, -1, own, total]], groups, num_ranks=4)
    assert found == [[], [], [due], []]


def test_messages_know_their_peer_and_their_tag_and_the_world_is_a_group():
    rows = [[0, "send", -1, 5, 1, 12, 12], [1, "recv", -1, 5, 0, 12, 12]]
    found = calls_of_ranks(rows, [None], num_ranks=2)
    assert found == [[ObservedCall("send", [0, 1], 1, 12, 12, 5)], [ObservedCall("recv", [0, 1], 0, 12, 0, 5)]]
    assert calls_of_ranks(None, [None], num_ranks=2) is None


def test_where_calls_cannot_be_read_far_more_bytes_than_billed_are_noticed():
    bills = [
        [ObservedCall("all_reduce", [0, 1], None, 10**6, 10.0**6)],
        [ObservedCall("all_reduce", [0, 1], None, 10**6, 10.0**6)],
    ]
    honest = [[0, 1, "bytes", 0, 1_001_000], [1, 0, "bytes", 0, 1_001_000]]
    hidden = [[0, 1, "bytes", 0, 3_000_000], [1, 0, "bytes", 0, 3_000_000]]
    assert other_than_billed(honest, bills, only_messages=False) is None
    assert "6 MB traveled" in (other_than_billed(hidden, bills, only_messages=False) or "")


def test_only_what_leaves_the_node_has_crossed():
    rows = [[0, 1, "message", 1, 100], [0, 2, "all_reduce", 1, 7], [2, 0, "message", 1, 5]]
    assert [crossed(rows, rank, per_node=2) for rank in range(4)] == [7, 0, 5, 0]
    assert crossed(None, 0, per_node=2) == 0


def test_sizes_read_as_a_person_writes_them():
    assert [size(12), size(1500), size(2.5e6), size(14e9)] == ["12 B", "1.5 KB", "2.5 MB", "14 GB"]


REQUEST = Request("on_rank", 2, 6.0, 1 << 30, 1 << 30, ["f"], "f", [None, [0, 1]])
REPORT = Report([End(b"\x00", None, 0, 5), End(None, "it ended", -9, None)], "late", True, 1.5, 12, [[0, 1]], None)
WRONG = [1.5, "text", b"bytes", [3], {"a": 1}, None, True]


@pytest.mark.parametrize("sent", [REQUEST, REPORT, Report(lost="no answer")], ids=lambda one: type(one).__name__)
def test_a_message_arrives_as_it_was_sent(sent):
    assert message.decode(type(sent), message.encode(sent)) == sent


@pytest.mark.parametrize("change", [{"more": 1}, {"ends": [{"result": None}]}, {"ends": [1]}, {"ends": None}])
def test_a_report_of_other_fields_is_refused(change):
    with pytest.raises(plain.NotPlain):
        message.decode(Report, plain.encode(asdict(REPORT) | change))


def test_a_missing_field_and_what_is_no_message_are_refused():
    rest = asdict(REPORT)
    del rest["touched"]
    for value in (rest, [], 1, None):
        with pytest.raises(plain.NotPlain, match="not a Report"):
            message.decode(Report, plain.encode(value))


@pytest.mark.parametrize("name", [one.name for one in fields(Report)])
def test_a_field_of_another_type_is_refused(name):
    right = getattr(REPORT, name)
    refused = 0
    for value in WRONG:
        try:
            found = message.decode(Report, plain.encode(asdict(REPORT) | {name: value}))
        except plain.NotPlain:
            refused += 1
        else:
            assert isinstance(getattr(found, name), type(right) | list | None)
    assert refused >= 4


# ---- The supervisor observes inputs, the position of a backward, and calls itself, whatever a rank claims. -----------

AVERAGE, BACKWARD = weeks.find("week02.average-gradients"), weeks.find("week02.ddp-backward")
SMALL = AVERAGE.public[:1]
OVERLAP = [case for case in BACKWARD.public if case["ranks"] > 1][-1:]
IN_PLACE = """
def average_gradients(gradients, *, group):
    for gradient in gradients:
        dist.all_reduce(gradient, group=group)
        gradient /= dist.get_world_size(group)
    return [gradient.clone() for gradient in gradients]
"""
ITSELF = """
def average_gradients(gradients, *, group):
    return list(gradients)
"""
NOTHING_SHARED = """
from autograder.jobs import call
plain_call = call._call
call._call = lambda *args: plain_call(*args) | {"shares_input": False}
"""
NEVER_RETURNS = "from autograder.jobs import call\ncall.returned = None\n"
RETURNED_BEFORE = "from autograder.jobs import call\ncall.returned()\ncall.returned = None\n"
UNDONE = forged.forgeries()["returned_early"]
A_SECOND_MAPPING = """
import ctypes
from autograder.jobs import call
libc = ctypes.CDLL(None)
libc.mremap.restype = ctypes.c_void_p
begin = next(line.split("-")[0] for line in open("/proc/self/maps") if "memfd:inputs" in line and "rw-s" in line)
libc.mremap(ctypes.c_void_p(int(begin, 16)), ctypes.c_size_t(0), ctypes.c_size_t(4096), 1)
"""


def judged(judge, check, source, cases=None):
    return judge.judge(check, {"preamble": kill_matrix.PREAMBLE, "cells": [[check.exercise, source, True]]}, 1, cases)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (IN_PLACE, "changes the tensors it was given"),
        (ITSELF, "returns a view of its input"),
        (NOTHING_SHARED + IN_PLACE, "changes the tensors it was given"),
        (NOTHING_SHARED + ITSELF, "wrong"),  # its numbers change with the input
        (NEVER_RETURNS + IN_PLACE, "exited before its inputs could be compared"),
        (RETURNED_BEFORE + IN_PLACE, "was killed by SIGSEGV"),  # its inputs are read-only by then
        (forged.cell({}, UNDONE, IN_PLACE), "was killed by SIGSEGV"),
        (A_SECOND_MAPPING + IN_PLACE, "exited before its inputs could be compared"),
    ],
)
def test_inputs_are_seen_from_outside(judge, source, sentence):
    verdict = judged(judge, AVERAGE, source, SMALL)
    assert verdict.points == 0 and sentence in verdict.text


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
@pytest.mark.parametrize(
    ("forgery", "sentence"),
    [
        ("marks_left_out", "exchanges messages of one byte"),  # not one of those that hold ranks back
        ("replayed_marks", "of the gradient of 0.weight are wrong"),  # no factor corrects them
    ],
)
def test_a_backward_that_claims_to_overlap_is_found_out(judge, forgery, sentence):
    late = known.find(BACKWARD.exercise, "after_the_backward").source
    claims = forged.honest(BACKWARD, known.right_of(BACKWARD.exercise).source, judge)
    verdict = judged(judge, BACKWARD, forged.cell(claims, forged.forgeries()[forgery], late), OVERLAP)
    assert verdict.points == 0 and sentence in verdict.text


@pytest.mark.isolated(3)
def test_messages_of_one_byte_are_the_modules_own(judge):
    """They pass as the layers' marks: with more of them, gradients could be sent outside the buckets."""
    right = known.right_of(BACKWARD.exercise).source.replace(
        "    parameters, size =", "    dist.broadcast(torch.zeros(1, dtype=torch.uint8), 0)\n    parameters, size =", 1
    )
    verdict = judged(judge, BACKWARD, right, OVERLAP)
    assert verdict.points == 0 and "exchanges messages of one byte" in verdict.text


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.isolated(3)
def test_code_that_is_given_up_makes_no_room_below_the_cap(judge):
    capped = weeks.find("week14.memory-cap")
    large = known.find(capped.exercise, "tiles_above_the_cap").source
    cell = forged.cell({}, forged.forgeries()["file_pages_dropped"], large)
    verdict = judged(judge, capped, cell, capped.public[-1:])
    assert verdict.points == 0 and "at its peak, but 16.78 MB are enough" in verdict.text
