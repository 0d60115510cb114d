"""Calls that torch does not report: handles that are never waited for, and calls from ranks outside the group."""

import pytest
import shardlab
from shardlab.meter.ledger import MOST_NOTES

from tests.shardlab.ranks import calls_to_report as calls

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
