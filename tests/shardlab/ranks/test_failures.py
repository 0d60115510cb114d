"""Every failure ends in one message that names ranks, calls and lines, and the next call works."""

import os
import signal
import sys
import time

import pytest
import shardlab
import torch
import torch.distributed as dist
from notebook_cell import run_cell


@pytest.fixture(autouse=True)
def the_next_call_works():
    yield
    assert shardlab.run(dist.get_rank, ranks=2) == [0, 1]


def report_of(function, *args, **settings):
    with pytest.raises(shardlab.RanksFailed) as failure:
        shardlab.run(function, *args, **settings)
    return str(failure.value)


def test_an_exception_on_one_rank():
    lesson = run_cell("""
        import torch, torch.distributed as dist

        def all_reduce_but_one():
            dist.barrier()
            if dist.get_rank() == 2:
                raise ValueError("rank two does not want to")
            dist.all_reduce(torch.ones(3))
        """)
    report = report_of(lesson["all_reduce_but_one"], ranks=4)
    assert report.startswith("Rank 2 failed, which ended the call on 4 ranks.")
    assert "rank 2 raised after 1 call: ValueError: rank two does not want to" in report
    assert "rank 2 raised first:" in report
    assert 'raise ValueError("rank two does not want to")' in report
    for rank in (0, 1, 3):
        assert f"  rank {rank} " in report
    assert "all_reduce ([3] float32), line 8 of your cell, in all_reduce_but_one()" in report


def test_a_rank_that_leaves_without_a_word():
    def leave():
        if dist.get_rank() == 1:
            os._exit(0)
        dist.barrier()

    report = report_of(leave, ranks=3)
    assert report.startswith("Rank 1 failed")
    assert "rank 1 left with exit code 0 before any communication" in report


def test_a_rank_that_calls_sys_exit():
    assert "SystemExit" in report_of(lambda: sys.exit(0), ranks=1)


def test_a_rank_that_is_killed():
    def be_killed():
        dist.barrier()
        if dist.get_rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(3))

    report = report_of(be_killed, ranks=2)
    assert report.startswith("Rank 0 failed")
    assert "rank 0 was killed by SIGKILL after 1 call, the last: barrier" in report


def test_an_endless_loop_is_named_with_its_line():
    lesson = run_cell("""
        import torch.distributed as dist

        def spin():
            while dist.get_rank() == 1:
                pass
        """)
    report = report_of(lesson["spin"], ranks=2, timeout=1)
    assert report.startswith("After 1 s, 1 of 2 ranks had not finished, so the run was ended.")
    assert "rank 0 returned before any communication" in report
    assert "rank 1 was still computing before any communication, at line " in report
    assert " of your cell, in spin()" in report
    assert "No rank waits for another: a loop does not end" in report


def test_two_blocking_sends_are_a_deadlock_noticed_at_once():
    lesson = run_cell("""
        import torch, torch.distributed as dist

        def exchange():
            mine, theirs = torch.zeros(4), torch.zeros(4)
            other = 1 - dist.get_rank()
            dist.send(mine, other)
            dist.recv(theirs, other)
        """)
    report = report_of(lesson["exchange"], ranks=2, timeout=60)
    assert report.startswith("Deadlock: 2 of 2 ranks wait, and nothing can wake them, so the run was ended.")
    for rank in (0, 1):
        assert (
            f"rank {rank} waits in send to rank {1 - rank} ([4] float32), line 7 of your cell, in exchange()" in report
        )
    assert "Nobody receives" in report


def test_two_receives_are_a_deadlock():
    def wait_for_each_other():
        dist.recv(torch.zeros(4), 1 - dist.get_rank())

    report = report_of(wait_for_each_other, ranks=2, timeout=60)
    assert "rank 1 waits in recv from rank 0" in report
    assert "it had not finished any call" in report
    assert "Nobody sends" in report


def test_a_call_that_one_rank_never_makes():
    def all_but_one():
        dist.all_reduce(torch.ones(2))
        if dist.get_rank() != 0:
            dist.broadcast(torch.ones(5), src=1)
            dist.barrier()

    report = report_of(all_but_one, ranks=3, timeout=60)
    assert "rank 0 returned after 1 call; its last was all_reduce" in report
    assert "its last finished call was all_reduce ([2] float32), line " in report
    assert "Rank 0 has already returned, so it never makes the call that the others wait for." in report


def test_collectives_in_another_order_name_the_first_divergence():
    def another_order():
        loss, gradient = torch.ones(1), torch.ones(8)
        dist.barrier()
        for tensor in (gradient, loss) if dist.get_rank() == 0 else (loss, gradient):
            dist.all_reduce(tensor)

    report = report_of(another_order, ranks=3, timeout=3)
    assert "The ranks diverge at collective #2: rank 0 called all_reduce ([8] float32)" in report
    assert "rank 1 called all_reduce ([1] float32)" in report


def test_an_all_reduce_of_different_shapes():
    def different_shapes():
        dist.all_reduce(torch.ones(4 + dist.get_rank()))

    report = report_of(different_shapes, ranks=2, timeout=3)
    assert "The ranks diverge at collective #1: rank 0 called all_reduce ([4] float32)" in report
    assert "rank 1 called all_reduce ([5] float32)" in report


@pytest.mark.parametrize(
    ("received", "named"),
    [
        (torch.zeros(8), "received as [8] float32"),
        (torch.zeros(2), "received as [2] float32"),
        (torch.zeros(4, dtype=torch.int32), "received as [4] int32"),
    ],
    ids=["larger", "smaller", "another dtype"],
)
def test_a_receive_that_does_not_match_its_send(received, named):
    def mismatch(buffer):
        if dist.get_rank() == 0:
            dist.send(torch.ones(4), 1)
        else:
            dist.recv(buffer, 0)

    report = report_of(mismatch, received, ranks=2, timeout=3)
    assert "Message 1 from rank 0 to rank 1: sent as [4] float32" in report
    assert named in report
    assert "A receive needs the size and dtype of its send." in report


def test_a_collective_of_different_dtypes_does_not_pass_as_success():
    def reinterpret():
        dist.all_reduce(torch.ones(4, dtype=torch.float32 if dist.get_rank() else torch.int32))

    report = report_of(reinterpret, ranks=2, timeout=3)
    assert report.startswith("Every rank returned, but some data did not arrive as sent.")
    assert "The ranks diverge at collective #1: rank 0 called all_reduce ([4] int32)" in report


def test_an_uneven_all_to_all_is_right():
    def uneven():
        rank = dist.get_rank()
        received = torch.zeros(3 * (rank + 1))
        dist.all_to_all_single(received, torch.ones(6), [rank + 1] * 3, [1, 2, 3])
        return received.sum().item()

    assert shardlab.run(uneven, ranks=3) == [3, 6, 9]


def test_without_the_ledger_a_hang_still_names_the_lines():
    def hang():
        dist.recv(torch.zeros(1), 1 - dist.get_rank())

    report = report_of(hang, ranks=2, timeout=1, observe=False)
    assert report.startswith("After 1 s, 2 of 2 ranks had not finished")
    assert "rank 0 was still running (its calls were not observed), at line " in report
    assert "of test_failures.py, in hang()" in report


def test_a_slow_computation_is_not_a_deadlock():
    def compute():
        if dist.get_rank() == 0:
            time.sleep(2.5)  # longer than it takes to be certain of a deadlock
        dist.all_reduce(torch.ones(1))
        return "done"

    assert shardlab.run(compute, ranks=2) == ["done"] * 2


def test_groups_that_are_made_in_another_order():
    lesson = run_cell("""
        import torch.distributed as dist

        def rows_or_columns():
            rows, columns = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
            for members in rows + columns if dist.get_rank() < 2 else columns + rows:
                dist.new_group(members)
        """)
    report = report_of(lesson["rows_or_columns"], ranks=4, timeout=3)
    assert "waits in new_group before any communication, at line " in report
    assert "of your cell, in rows_or_columns()" in report
    assert "all ranks must call new_group for the same groups in the same order" in report
    assert "computing" not in report
    assert "No rank waits" not in report
