"""Sequences and learning rate of a step do not depend on the mesh, the ranks, or where a run started."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.mesh.axes import Mesh
from shardlab.model.text import read_text
from shardlab.train import lr_at
from shardlab.train.by_step import COURSE, Text, rows_of_replica, sequence_numbers, text_of
from shardlab.train.sections import LearningRate

from tests.shardlab.train.small import recipe


def test_an_epoch_sees_every_sequence_once_and_the_next_in_another_order():
    seen = [n for step in range(7) for n in sequence_numbers(3, step, batch=6, num_sequences=21)]
    assert sorted(seen[:21]) == sorted(seen[21:]) == list(range(21)) and seen[:21] != seen[21:]


def test_the_order_is_that_of_the_seed():
    first, other = (sequence_numbers(seed, 5, batch=8, num_sequences=100) for seed in (0, 1))
    assert first == sequence_numbers(0, 5, batch=8, num_sequences=100) != other


@settings(deadline=None, max_examples=30)
@given(dp=st.sampled_from([1, 2, 3, 4, 6]), microbatches=st.sampled_from([1, 2, 4]), share=st.integers(1, 3))
def test_replicas_share_every_global_microbatch(dp, microbatches, share):
    batch, mesh = dp * microbatches * share, Mesh(dp=dp)
    rows = [rows_of_replica(batch, microbatches, mesh, replica) for replica in range(dp)]
    for number in range(microbatches):
        together = [row for mine in rows for row in mine[number * share : (number + 1) * share]]
        assert together == list(range(number * dp * share, (number + 1) * dp * share))


def test_labels_are_the_tokens_that_follow():
    text = Text(torch.arange(41), 8)
    tokens, labels = text.batch([4, 0])
    assert text.num_sequences == 5
    assert tokens.tolist() == [list(range(32, 40)), list(range(8))] and torch.equal(labels, tokens + 1)


def test_the_text_is_the_courses_own_and_has_a_checksum():
    text = text_of(recipe())
    assert torch.equal(text.tokens, read_text(COURSE)) and "docs" in str(COURSE)
    changed = text.tokens.clone()
    changed[1000] += 1
    assert Text(changed, 16).checksum != text.checksum


def test_warm_up_then_half_a_cosine():
    lr = LearningRate(peak=0.1, warmup=4, floor=0.2)
    assert [round(lr_at(step, lr, 12), 6) for step in (0, 1, 3, 4)] == [0.025, 0.05, 0.1, 0.1]
    assert lr_at(8, lr, 12) == pytest.approx(0.1 * 0.6)  # halfway
    assert lr_at(12, lr, 12) == pytest.approx(0.02) == lr_at(50, lr, 12)


def test_constant():
    assert {lr_at(step, LearningRate(peak=0.1, shape="constant"), 5) for step in range(9)} == {0.1}


def test_the_cosine_is_torchs():
    lr, parameter = LearningRate(peak=0.3, floor=0.1), torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.03)
    for step in range(20):
        assert lr_at(step, lr, 20) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        theirs.step()
