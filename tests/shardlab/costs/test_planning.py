"""Planning a run, and its goodput."""

import json
import math
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.commands.cli import app
from shardlab.costs import failures
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import memory_of_stage
from shardlab.costs.models.model import dense_layer_parameters, divisors, num_parameters
from shardlab.costs.models.zoo import ZOO, find_model
from shardlab.costs.planning.candidates import MOST_CHANGE, exact_batch, shared_batch
from shardlab.costs.planning.partition import Piece, best_stages, partition, pieces_of
from shardlab.costs.planning.planner import NothingFits, plan
from typer.testing import CliRunner

# ---- How the planner divides a batch and the layers. -----------------------------------------------------------------

# ---- The batch that is planned: close to the requested one, and divisible as the GPUs need ---------------------------


def typed(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "400", "TERM": "dumb"})


@pytest.mark.parametrize(
    ("tokens", "sequence", "gpus", "sequences"),
    [
        (4_000_000, 2048, 1024, 2048),  # 1,953: 3 * 3 * 7 * 31
        (4_000_000, 2048, 16384, 2048),
        (4_000_000, 2048, 8, 1952),  # as close as eight GPUs allow
        (4_000_000, 2048, 1000, 2000),
        (4_194_304, 2048, 1024, 2048),  # already divisible
        (3_145_728, 2048, 1024, 1536),  # GPT-3's batch
        (2048, 2048, 1024, 1),  # nothing close: unchanged
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
    """Sequences per second of the best plan, or 0 if there is none."""
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


FIXED = ("--tp", "8", "--pp", "32", "--best", "1")  # few layouts to search


@pytest.mark.slow
def test_the_command_says_what_it_rounded():
    asked = ("--model", "gpt-1t", "--gpus", "1024", "--tokens-per-batch", "4000000", *FIXED)
    text, data = typed(*asked).stdout, json.loads(typed(*asked, "--json").stdout)
    batch = data["batch"]
    assert (batch["asked_tokens"], batch["sequences"], batch["tokens"]) == (4_000_000, 2048, 4_194_304)
    assert data["sequences"] == 2048 and batch["change"] == pytest.approx(0.0486, abs=1e-4)
    assert "4,000,000 tokens are 1,953.1 sequences: the plan uses 2,048, 4,194,304 tokens (+4.86%)" in text
    assert "--exact-batch keeps 1,953" in text
    layout = data["plans"][0]["layout"]
    assert layout["microbatch"] * layout["num_microbatches"] * layout["dp"] == 2048


@pytest.mark.slow
def test_the_batch_may_be_kept():
    asked = ("--model", "gpt-1t", "--gpus", "1024", "--tokens-per-batch", "4000000", "--best", "1", "--exact-batch")
    text, data = typed(*asked).stdout, json.loads(typed(*asked, "--json").stdout)
    assert data["sequences"] == 1953 and "the plan uses 1,953, 3,999,744 tokens (-0.01%), the nearest" in text
    assert "tokens are" not in typed("--model", "gpt-1t", "--gpus", "1024", *FIXED).stdout


def test_less_than_a_sequence_is_no_batch():
    done = typed("--tokens-per-batch", "100")
    assert done.exit_code == 2 and "100 tokens are fewer than one sequence of 8,192: use 8192 or more" in done.output


# Stages by dynamic programming: as good as trying every split, within memory, and the cost of a real model's ends


H100 = ACCELERATORS["h100"]
small = st.integers(0, 9).map(float)
pieces = st.builds(Piece, small, small, small)


def every_cut(layers, num_stages, extras, num_microbatches, limit_bytes):
    """The smallest slowest stage among all splits that fit, or infinity if none fits."""
    least = math.inf
    for inner in combinations(range(1, len(layers)), num_stages - 1):
        edges = [0, *inner, len(layers)]
        stages = [[extra, *layers[b:e]] for extra, b, e in zip(extras, edges, edges[1:], strict=False)]
        held = [
            sum(p.state_bytes for p in stage) + min(num_stages - i, num_microbatches) * sum(p.kept_bytes for p in stage)
            for i, stage in enumerate(stages)
        ]
        if max(held) <= limit_bytes:
            least = min(least, max(sum(p.seconds for p in stage) for stage in stages))
    return least


@settings(max_examples=300, deadline=None)
@given(data=st.data(), layers=st.lists(pieces, min_size=1, max_size=8), num_microbatches=st.integers(1, 6))
def test_no_cut_is_better(data, layers, num_microbatches):
    num_stages = data.draw(st.integers(1, len(layers)))
    extras = data.draw(st.lists(pieces, min_size=num_stages, max_size=num_stages))
    limit = data.draw(st.one_of(st.just(math.inf), st.integers(0, 120).map(float)))
    least = every_cut(layers, num_stages, extras, num_microbatches, limit)
    wanted = {"extras": extras, "num_microbatches": num_microbatches, "limit_bytes": limit}
    if math.isinf(least):
        with pytest.raises(ValueError, match="use more stages or recomputation"):
            partition(layers, num_stages, **wanted)
        return
    found = partition(layers, num_stages, **wanted)
    assert found.slowest == least and sum(found.sizes) == len(layers) and min(found.sizes) >= 1
    assert max(found.bytes) <= limit
    assert found.step_seconds(1) == pytest.approx(sum(p.seconds for p in (*layers, *extras)))


def test_the_step_is_alpas_equation():
    found = partition([Piece(1.0), Piece(2.0), Piece(3.0)], 2)
    assert found.sizes == (2, 1) and found.step_seconds(5) == 6 + 4 * 3


@pytest.mark.parametrize(
    ("layers", "num_stages", "more", "sentence"),
    [
        ([Piece(1.0)], 2, {}, "use 1 to 1"),
        ([Piece(1.0)], 0, {}, "use 1 to 1"),
        ([Piece(-1.0)], 1, {}, "0 or more"),
        ([Piece(math.nan)], 1, {}, "0 or more"),
        ([Piece(1.0)], 1, {"extras": [Piece(), Piece()]}, "give one per stage"),
        ([Piece(1.0)], 1, {"num_microbatches": 0}, "use 1 or more"),
        ([Piece(1.0, 2.0**31)], 1, {"limit_bytes": 2.0**30}, "smallest needs 2 GiB"),
    ],
)
def test_what_cannot_be_cut_is_answered_with_a_sentence(layers, num_stages, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        partition(layers, num_stages, **more)


def test_the_output_layer_takes_layers_off_the_last_stage():
    layout = Layout(tp=8, pp=16, dp=8, num_microbatches=32, sequence_parallel=True, zero=1)
    found = best_stages(ZOO["llama3-405b"], layout, H100)
    assert sum(found.sizes) == 126 and found.sizes[-1] < max(found.sizes)  # the paper also removes one at either end
    even = best_stages(ZOO["gpt3-175b"], Layout(tp=8, pp=4, num_microbatches=8), H100)
    assert sum(even.sizes) == 96 and even.slowest < 1.1 * sum(even.seconds) / 4


def test_pieces_add_up_to_the_model():
    for name in ("llama3-8b", "deepseek-v3", "mixtral-8x7b"):
        model = ZOO[name]
        layout = Layout(tp=2, dp=8, ep=8 if model.experts else 1, pp=4, num_microbatches=4, sequence_parallel=True)
        layers, (first, middle, last) = pieces_of(model, layout, H100)
        assert len(layers) == model.layers and len(set(layers)) == (2 if model.dense_layers else 1)
        ends = first.state_bytes + 2 * middle.state_bytes + last.state_bytes
        stages = [memory_of_stage(model, layout, stage, gradient_bytes=4) for stage in range(4)]
        whole = sum(stage.total - stage.activations for stage in stages)
        assert sum(layer.state_bytes for layer in layers) + ends == pytest.approx(whole, rel=1e-6)
        assert last.seconds > 0 and last.state_bytes > 0


@pytest.mark.parametrize(("dp", "zero"), [(7, 1), (3, 2), (100, 2), (10_000, 2)])
def test_rounding_leaves_no_end_below_nothing(dp, zero):
    model = replace(ZOO["llama2-7b"], layers=126, hidden=384, heads=3, kv_heads=3, ffn=16, vocab=4096, sequence=96)
    model = replace(model, norm_vectors=3, qk_norm=True, flash=False)
    layout = Layout(pp=100, dp=dp, zero=zero)
    _, (_, middle, _) = pieces_of(model, layout, H100)
    whole = 4 * dense_layer_parameters(model) if zero == 2 else 0  # a layer's gradients until they are sharded
    assert (
        middle.state_bytes >= 0
        and abs(middle.state_bytes - whole) < 1
        and sum(best_stages(model, layout, H100).sizes) == 126
    )


@pytest.mark.parametrize("virtual", divisors(4))
def test_an_interleaved_schedule_is_cut_into_chunks(virtual):
    layout = Layout(pp=8, virtual=virtual, num_microbatches=8)
    assert len(best_stages(ZOO["llama2-7b"], layout, H100).sizes) == 8 * virtual


def test_without_a_pipeline_there_is_one_stage_and_a_cap_is_kept():
    assert best_stages(ZOO["llama2-7b"], Layout(dp=8), H100).sizes == (32,)
    with pytest.raises(ValueError, match="no cut of 32 layers into 2 stages fits"):
        best_stages(ZOO["llama2-7b"], Layout(pp=2, num_microbatches=2), H100, limit_bytes=2.0**30)


# ---- Failures: formula, simulation and search for the optimum agree, and they reproduce the numbers of Llama 3. ------

HOUR, DAY = 3600, 86400


def test_a_run_like_llama_3_fails_every_three_hours():
    one = failures.mean_seconds_of_one(16384, 54 * DAY, 419)
    assert one / HOUR == pytest.approx(50_677, abs=1)
    between = failures.mean_seconds_between(16384, one)
    assert between / HOUR == pytest.approx(3.09, abs=0.01)
    assert failures.expected_failures(54 * DAY, between) == pytest.approx(419)
    assert failures.quiet_share(DAY, between) == pytest.approx(math.exp(-419 / 54))
    assert failures.mean_seconds_between(8, one) / DAY == pytest.approx(264, abs=1)  # one server: twice in 18 months


def test_a_checkpoint_of_405b_is_five_terabytes():
    assert failures.checkpoint_bytes(num_parameters(find_model("llama3-405b"))) / 1e12 == pytest.approx(5.68, abs=0.01)


@pytest.mark.parametrize(("save", "between", "restart"), [(3, 11_000, 300), (60, 11_000, 600), (300, 2_000, 0)])
def test_formula_and_play_agree(save, between, restart):
    for factor in (0.5, 1, 2):
        interval = factor * failures.best_interval(save, between)
        checkpoints = int(400_000 * interval / between) + 20_000
        played = failures.played_goodput(interval, save, between, restart, checkpoints=checkpoints)
        assert played == pytest.approx(failures.goodput(interval, save, between, restart), rel=0.01)


@pytest.mark.parametrize("ratio", [1e-4, 1e-3, 1e-2, 0.1, 0.5])
def test_daly_finds_the_optimum_and_young_is_near_it_for_short_checkpoints(ratio):
    between = 10_000.0
    save = ratio * between
    best = max(range(1, 30_000), key=lambda tau: failures.goodput(tau, save, between, 0))
    assert failures.best_interval_daly(save, between) == pytest.approx(best, rel=0.02)
    young = failures.goodput(failures.best_interval(save, between), save, between, 0)
    assert young <= failures.goodput(best, save, between, 0) * (1 + 1e-12)
    assert young == pytest.approx(failures.goodput(best, save, between, 0), rel=0.1 * ratio + 1e-4)


def test_restarts_do_not_move_the_optimum():
    times = [max(range(100, 5000), key=lambda tau: failures.goodput(tau, 60, 11_000, R)) for R in (0, 900)]
    assert times[0] == times[1]


def test_first_order():
    exact = failures.goodput(800, 3, 100_000, 300)
    assert exact == pytest.approx(1 - 3 / 800 - (400 + 300) / 100_000, abs=1e-4)


def test_checkpoints_longer_than_failures_are_apart():
    assert failures.best_interval_daly(500, 200) == 200


def test_what_cannot_be_is_refused():
    for call in (
        lambda: failures.best_interval(0, 1),
        lambda: failures.goodput(0, 1, 1, 1),
        lambda: failures.mean_seconds_between(0, 1),
        lambda: failures.played_goodput(1, 1, 1, 1, checkpoints=0),
        lambda: failures.goodput(1, -1, 1, 1),
    ):
        with pytest.raises(ValueError, match="use"):
            call()


def test_first_order_is_near_for_rare_failures_and_never_negative():
    between, save, restart = 11_125.0, 30.0, 600.0
    interval = failures.best_interval(save, between)
    exact = failures.goodput(interval, save, between, restart)
    assert failures.first_order_goodput(interval, save, between, restart) == pytest.approx(exact, rel=0.01)
    assert failures.first_order_goodput(3600, save, 300, restart) == 0.0
