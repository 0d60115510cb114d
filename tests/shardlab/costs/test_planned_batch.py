"""The batch that a plan is made for: near what was asked for, and cut as far as the GPUs ask."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shardlab.commands.cli import app
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.model import divisors
from shardlab.costs.model_zoo import ZOO
from shardlab.costs.planning.batch import MOST_CHANGE, exact_batch, shared_batch
from shardlab.costs.planning.planner import NothingFits, plan
from typer.testing import CliRunner


def typed(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "400", "TERM": "dumb"})


@pytest.mark.parametrize(
    ("tokens", "sequence", "gpus", "sequences"),
    [
        (4_000_000, 2048, 1024, 2048),  # 1,953: 3 * 3 * 7 * 31
        (4_000_000, 2048, 16384, 2048),
        (4_000_000, 2048, 8, 1952),  # as near as eight GPUs ask
        (4_000_000, 2048, 1000, 2000),
        (4_194_304, 2048, 1024, 2048),  # divides already
        (3_145_728, 2048, 1024, 1536),  # GPT-3's batch
        (2048, 2048, 1024, 1),  # nothing near: as it is
        (3000, 2048, 8, 1),
    ],
)
def test_a_batch_is_rounded_to_what_the_gpus_can_share(tokens, sequence, gpus, sequences):
    assert shared_batch(tokens, sequence, gpus).sequences == sequences


@given(st.integers(1, 10**12), st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_batch_stays_within_five_percent_or_is_the_nearest(tokens, sequence, gpus):
    if tokens < sequence:
        with pytest.raises(ValueError, match=f"use {sequence} or more"):
            shared_batch(tokens, sequence, gpus)
        return
    batch, exact = shared_batch(tokens, sequence, gpus), exact_batch(tokens, sequence)
    assert batch.tokens == batch.sequences * sequence and batch.sequences >= 1
    assert abs(exact.tokens - tokens) <= sequence / 2
    assert batch == exact or abs(batch.change) <= MOST_CHANGE
    shared = max(d for d in divisors(gpus) if batch.sequences % d == 0)
    for larger in (d for d in divisors(gpus) if d > shared):
        near = round(tokens / sequence / larger) * larger * sequence
        assert abs(near / tokens - 1) > MOST_CHANGE


def rate(model, gpu, gpus, sequences):
    """Sequences a second of the best plan; 0 where there is none."""
    try:
        return sequences / plan(model, gpu, gpus, sequences, best=1)[0].step.total
    except NothingFits:
        return 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gpus"), [("gpt-1t", 1024), ("gpt3-175b", 1024), ("llama3-70b", 256)])
def test_a_rounded_batch_plans_as_well_as_any_within_five_percent(name, gpus):
    model, gpu = ZOO[name], ACCELERATORS["h100"]
    asked = 4_000_000 / model.sequence
    rounded = shared_batch(4_000_000, model.sequence, gpus).sequences
    around = [rate(model, gpu, gpus, sequences) for sequences in range(round(asked * 0.95), round(asked * 1.05))]
    assert rate(model, gpu, gpus, rounded) >= max(around) * 0.99
    assert rate(model, gpu, gpus, rounded) > rate(model, gpu, gpus, round(asked)) * 1.05


@pytest.mark.slow
def test_the_command_says_what_it_rounded():
    asked = ("--model", "gpt-1t", "--gpus", "1024", "--tokens-per-batch", "4000000", "--best", "1")
    text, data = typed(*asked).stdout, json.loads(typed(*asked, "--json").stdout)
    batch = data["batch"]
    assert (batch["asked_tokens"], batch["sequences"], batch["tokens"]) == (4_000_000, 2048, 4_194_304)
    assert data["sequences"] == 2048 and batch["change"] == pytest.approx(0.0486, abs=1e-4)
    assert "4,000,000 tokens are 1,953.1 sequences: planned are 2,048, 4,194,304 tokens (+4.86%)" in text
    assert "--exact-batch keeps 1,953" in text
    layout = data["plans"][0]["layout"]
    assert layout["microbatch"] * layout["num_microbatches"] * layout["dp"] == 2048


@pytest.mark.slow
def test_the_batch_may_be_kept():
    asked = ("--model", "gpt-1t", "--gpus", "1024", "--tokens-per-batch", "4000000", "--best", "1", "--exact-batch")
    text, data = typed(*asked).stdout, json.loads(typed(*asked, "--json").stdout)
    assert data["sequences"] == 1953 and "planned are 1,953, 3,999,744 tokens (-0.01%), the nearest" in text
    assert "tokens are" not in typed("--model", "gpt-1t", "--gpus", "1024", "--best", "1").stdout


def test_less_than_a_sequence_is_no_batch():
    done = typed("--tokens-per-batch", "100")
    assert done.exit_code == 2 and "100 tokens are less than one sequence of 8,192: use 8192 or more" in done.output
