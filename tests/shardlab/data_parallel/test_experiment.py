"""Lab 3's numbers: predicted and measured bytes are equal, all stages learn the same, and the loss goes down."""

from pathlib import Path

import pytest
import shardlab
import torch
from shardlab.data_parallel.experiment import build, predicted, train
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.model.text import batch_of, read_text

DOCS = Path(__file__).parents[3] / "docs"
# Not the text of docs/, which changes.
TEXT = torch.tensor(list(b"One rank sends, another receives; no rank may wait forever.\n" * 200))
SMALL = GPTConfig(layers=2, hidden=24, heads=2, sequence=16)


def measure(stage, config, steps):
    return train(build(stage, config, None), config, TEXT, steps=steps, batch=2)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_predicted_bytes_are_measured(stage, ranks):
    due = predicted(SMALL, stage, ranks)
    for one in shardlab.run(measure, stage, SMALL, 1, ranks=ranks, timeout=60):
        assert one.sent_bytes == due.sent_bytes
        assert (one.held.parameters, one.held.gradients) == (due.held.parameters, due.held.gradients)
        assert one.held.optimizer_state == due.held.optimizer
        assert 0 < one.exposed < one.seconds


@pytest.mark.slow
def test_ten_million_parameters_to_the_byte():
    config = GPTConfig(layers=12, hidden=256, heads=8, sequence=32, vocabulary=256)
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in GPT(config).parameters()) > 9.5e6
    due = predicted(config, 3, 2)
    for one in shardlab.run(measure, 3, config, 1, ranks=2, timeout=120):
        assert one.sent_bytes == due.sent_bytes
        assert one.held.total == due.held.total


@pytest.mark.slow
def test_all_stages_learn_the_same():
    first, *others = (shardlab.run(measure, stage, SMALL, 6, ranks=2, timeout=60)[0].losses for stage in range(4))
    assert first[-1] < first[0] - 0.2
    for losses in others:
        assert losses == pytest.approx(first, abs=1e-5)


def test_batches_differ_by_step_and_rank_and_targets_are_the_next_tokens():
    text = read_text(DOCS)
    tokens, targets = batch_of(text, step=1, rank=0, batch=3, sequence=8)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert not torch.equal(tokens, batch_of(text, step=1, rank=1, batch=3, sequence=8)[0])
    assert not torch.equal(tokens, batch_of(text, step=2, rank=0, batch=3, sequence=8)[0])


def test_too_little_text_and_heads_that_do_not_divide_are_refused(tmp_path):
    with pytest.raises(ValueError, match="10,000 or more"):
        read_text(tmp_path)
    with pytest.raises(ValueError, match=r"use one of \[1, 2, 4"):
        GPTConfig(hidden=32, heads=3)
