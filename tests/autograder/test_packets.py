"""What travelled, held against what is claimed."""

import pytest

from autograder.checks.packets import crossed, other_than_claimed, size

SENT = [[0, 1, "message", 2, 12], [1, 0, "message", 1, 8]]


def test_claims_that_agree_are_fine_and_a_silent_rank_too():
    assert other_than_claimed(SENT, [[4, 8], [8], []], ("send", "recv")) is None


@pytest.mark.parametrize(
    ("rows", "claims", "sentence"),
    [
        (SENT, [[4, 4], [8]], "Rank 0 reports 8 B sent, but 12 B travelled"),
        (SENT, [[12], [8]], "Rank 0 reports 1 messages, but 2 travelled"),
        (SENT, [[4, 8], []], "Rank 1 reports 0 B sent, but 8 B travelled"),
        ([[1, 0, "all_reduce", 4, 8]], [[], [8]], "Rank 1 calls all_reduce"),
        ([[-1, -1, "unknown", 1, 8]], [[], []], "writes into a connection by itself"),
    ],
)
def test_what_differs_is_named(rows, claims, sentence):
    assert sentence in (other_than_claimed(rows, claims, ("send", "recv")) or "")


def test_only_what_leaves_the_node_has_crossed():
    rows = [[0, 1, "message", 1, 100], [0, 2, "all_reduce", 1, 7], [2, 0, "message", 1, 5]]
    assert [crossed(rows, rank, per_node=2) for rank in range(4)] == [7, 0, 5, 0]
    assert crossed(None, 0, per_node=2) == 0


def test_sizes_read_as_a_person_writes_them():
    assert [size(12), size(1500), size(2.5e6), size(14e9)] == ["12 B", "1.5 KB", "2.5 MB", "14 GB"]
