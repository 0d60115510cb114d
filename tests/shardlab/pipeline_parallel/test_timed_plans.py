"""Pipelines of the planner: simulated, and as recipes."""

from dataclasses import replace

import pytest
from shardlab.costs.clock.kernels import NOTHING
from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.step import bubble_seconds, pipeline_of, step_seconds
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.zoo import ZOO
from shardlab.costs.planning.partition import at_least, cuts, deal
from shardlab.costs.planning.planner import Plan, seconds_of
from shardlab.pipeline_parallel.planned import ROUNDS, play, played_seconds
from shardlab.pipeline_parallel.timed import chunks_of_rank, seconds_of_cut, time_plan, timed

# Plans timed with whole layers in each chunk: printed seconds are simulated, and no even split is better


H100 = ACCELERATORS["h100"]
SETUP = Setup(H100, gradient_bytes=4)
KINDS = {
    "1f1b": {},
    "gpipe": {"schedule": "gpipe"},
    "zero-bubble": {"schedule": "zero-bubble"},
    "interleaved": {"virtual": 2},
    "zbv": {"schedule": "zbv"},
    "dualpipe": {"schedule": "dualpipe"},
}


def planned(name, **sizes):
    model, layout = ZOO[name], Layout(tp=8, sequence_parallel=True, zero=1, **sizes)
    return model, Plan(layout, peak_memory(model, layout, gradient_bytes=4), seconds_of(model, layout, H100))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "layers"), [("gpt3-175b", 96), ("llama3-70b", 80), ("deepseek-v3", 61)])
def test_a_cut_has_all_layers_and_its_parts_are_its_seconds(kind, name, layers):
    model, plan = planned(name, pp=4, num_microbatches=16, dp=2, **KINDS[kind])
    found = time_plan(model, plan, SETUP)
    assert sum(found.cut) == layers and len(found.cut) == plan.layout.chunks and min(found.cut) >= 1
    assert min(vars(found.step).values()) >= 0
    held = [sum(found.cut[chunk] for chunk in chunks_of_rank(plan.layout, rank)) for rank in range(4)]
    whole = 2 if kind == "dualpipe" else 1
    assert max(held) <= whole * -(-layers // 4)
    assert 0.85 < found.step.total / plan.step.total < 1.12  # the formulas use average chunks


@pytest.mark.parametrize("kind", KINDS)
def test_equal_stages_take_what_the_formula_of_the_bubble_says(kind):
    model, plan = planned("gpt3-175b", pp=4, num_microbatches=16, overlap=False, **KINDS[kind])
    pipeline = pipeline_of(model, plan.layout, SETUP)
    whole = pipeline.layer.times(96 / plan.layout.chunks)
    played = seconds_of_cut((whole,) * plan.layout.chunks, 0.0, plan.layout)
    formula = 16 * 24 * pipeline.layer.both + _bubble(replace(pipeline, output=whole.times(0), hop=0.0), plan.layout)
    assert played == pytest.approx(formula, rel=0.03 if kind in ("zbv", "dualpipe") else 1e-6)


def _bubble(pipeline, layout):
    from shardlab.costs.clock.step import bubble_seconds

    return bubble_seconds(pipeline, layout)


def test_a_cut_of_mean_chunks_is_the_planned_pipeline():
    model, plan = planned("gpt3-175b", pp=4, num_microbatches=12, virtual=2)
    pipeline = pipeline_of(model, plan.layout, SETUP)
    chunks = [pipeline.layer.times(12)] * 8
    chunks[-1] += pipeline.output
    assert seconds_of_cut(tuple(chunks), pipeline.hop, plan.layout) == pytest.approx(
        played_seconds(pipeline, plan.layout)
    )


def test_layers_that_chunks_cannot_share_cost_what_they_cost():
    """126 layers in 7 chunks on each of 16 ranks: no rank can hold the average chunk of 1.125 layers."""
    model, plan = planned("llama3-405b", pp=16, dp=128, virtual=7, num_microbatches=16)
    found = time_plan(model, plan, SETUP)
    assert found.step.total > 1.03 * plan.step.total and {*found.cut} == {1, 2}
    model, plan = planned("llama3-405b", pp=16, dp=128, virtual=8, num_microbatches=16)
    ends = time_plan(model, plan, SETUP)
    assert ends.cut == (0, *[1] * 126, 0) and ends.step.total < found.step.total


def test_the_played_cut_is_the_best_of_those_that_were_tried():
    model, plan = planned("llama3-405b", pp=16, dp=128, virtual=4, num_microbatches=32)
    found, pipeline = time_plan(model, plan, SETUP), pipeline_of(ZOO["llama3-405b"], plan.layout, SETUP)
    tried = {*cuts(model, plan.layout, [pipeline.layer.both] * 126, pipeline.output.both)}
    assert found.cut in tried and len(tried) > 2
    for cut in tried:
        chunks = [pipeline.layer.times(size) for size in cut]
        chunks[-1] += pipeline.output
        seconds = seconds_of_cut(tuple(chunks), pipeline.hop, plan.layout)
        assert seconds + found.step.data + found.step.optimizer >= found.step.total * (1 - 1e-9)


def test_plans_are_ranked_again_and_those_without_a_pipeline_stay():
    model, slow = planned("llama3-70b", pp=4, num_microbatches=4)
    _, fast = planned("llama3-70b", pp=4, num_microbatches=4, virtual=4)
    _, flat = planned("llama3-70b", dp=4)
    found = timed(model, [slow, fast, flat], SETUP)
    assert [one.step.total for one in found] == sorted(one.step.total for one in found)
    assert flat in found and all(one.cut for one in found if one.layout.pp > 1)


def test_dealing_by_hand():
    assert deal([5, 4], (0, 1)) == (3, 2, 2, 2) and deal([5, 4], (1, 0)) == (2, 2, 3, 2)
    assert deal([5, 4], (0, 1), v_shaped=True) == (3, 2, 2, 2) and deal([5, 4], (1, 0), v_shaped=True) == (2, 2, 2, 3)
    assert at_least([5, 5, 1], 2) == [4, 5, 2]


# The planner's pipeline formula and the simulated schedule: exact for equal stages, otherwise never far off


PLANNED_KINDS = {
    "1f1b": (1, "1f1b"),
    "gpipe": (1, "gpipe"),
    "zero-bubble": (1, "zero-bubble"),
    "interleaved": (2, "1f1b"),
}


def case(model, p, m, kind):
    virtual, schedule = PLANNED_KINDS[kind]
    layout = Layout(tp=8, pp=p, virtual=virtual, num_microbatches=m, schedule=schedule, overlap=False)
    return layout, pipeline_of(ZOO[model], layout, Setup(H100))


@pytest.mark.parametrize("kind", PLANNED_KINDS)
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (8, 64)])
def test_equal_stages_without_messages_take_exactly_what_the_formula_says(kind, p, m):
    layout, pipeline = case("gpt3-175b", p, m, kind)
    equal = replace(pipeline, output=NOTHING, hop=0.0)
    work = m * equal.stages[0].both
    assert played_seconds(equal, layout) == pytest.approx(work + bubble_seconds(equal, layout))


@pytest.mark.parametrize("kind", PLANNED_KINDS)
@pytest.mark.parametrize("model", ["gpt3-175b", "llama3-405b", "llama3-8b"])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (8, 8), (16, 64)])
def test_real_stages_take_about_what_the_formula_says(model, kind, p, m):
    """If the output layer takes as long as several of the 8B's layers, the formula is at most a tenth too slow."""
    layout, pipeline = case(model, p, m, kind)
    step = step_seconds(ZOO[model], layout, Setup(H100))
    assert 0.98 < (step.total - step.data - step.optimizer) / played_seconds(pipeline, layout) < 1.12


def test_the_zero_bubble_schedule_fills_most_of_the_bubble():
    seconds = {
        kind: bubble_seconds(pipeline, layout)
        for kind in PLANNED_KINDS
        for layout, pipeline in [case("gpt3-175b", 8, 32, kind)]
    }
    assert seconds["zero-bubble"] < 0.5 * seconds["1f1b"] == 0.5 * seconds["gpipe"]
    assert seconds["interleaved"] < 0.6 * seconds["1f1b"]


def test_microbatches_beyond_those_played_add_the_slowest_stage():
    layout, pipeline = case("llama3-8b", 4, 64, "1f1b")
    few = replace(layout, num_microbatches=ROUNDS * 4)
    assert play(pipeline, layout).makespan == play(pipeline, few).makespan
    more = played_seconds(pipeline, layout) - played_seconds(pipeline, few)
    assert more == pytest.approx(48 * (max(stage.both for stage in pipeline.stages) + 2 * pipeline.hop))
