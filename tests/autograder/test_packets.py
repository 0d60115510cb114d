"""What travelled: kinds, calls, bytes that leave a node."""

import pytest

from autograder.checks.packets import ObservedCall, calls_of_ranks, crossed, other_kind, other_than_billed, size

MESSAGES = [[0, 1, "message", 2, 12], [1, 0, "message", 1, 8]]


def test_messages_are_fine_and_a_silent_rank_too():
    assert other_kind(MESSAGES, ("send", "recv")) is None


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([*MESSAGES, [1, 0, "all_reduce", 4, 8]], "Rank 1 calls all_reduce; this exercise is made of send and recv"),
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
    assert "6 MB travelled" in (other_than_billed(hidden, bills, only_messages=False) or "")


def test_only_what_leaves_the_node_has_crossed():
    rows = [[0, 1, "message", 1, 100], [0, 2, "all_reduce", 1, 7], [2, 0, "message", 1, 5]]
    assert [crossed(rows, rank, per_node=2) for rank in range(4)] == [7, 0, 5, 0]
    assert crossed(None, 0, per_node=2) == 0


def test_sizes_read_as_a_person_writes_them():
    assert [size(12), size(1500), size(2.5e6), size(14e9)] == ["12 B", "1.5 KB", "2.5 MB", "14 GB"]
