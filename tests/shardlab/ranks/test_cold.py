"""A cold torchrun and the warm worker give the same: results, failures, prints, and one group of real processes."""

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
import shardlab
import torch
import torch.distributed as dist
from notebook_cell import run_cell
from shardlab import meter
from shardlab.collectives import ring_all_reduce
from shardlab.ranks.inside import torchrun_group


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
    for warm, cold in zip(on_ranks("warm"), on_ranks("torchrun"), strict=True):
        assert torch.equal(warm[0], cold[0])
        assert warm[1:] == cold[1:]


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
    assert report.startswith("Rank 1 failed, and with it the call on 2 ranks.")
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
