"""The planner's formula of the pipeline beside the simulated schedule: exact with equal stages, else never far off."""

from dataclasses import replace

import pytest
from shardlab.costs.clock.kernels import NOTHING
from shardlab.costs.clock.setup import Setup
from shardlab.costs.clock.step import bubble_seconds, pipeline_of, step_seconds
from shardlab.costs.hardware import ACCELERATORS
from shardlab.costs.layout import Layout
from shardlab.costs.model_zoo import ZOO
from shardlab.pipeline_parallel.planned import ROUNDS, play, played_seconds

H100 = ACCELERATORS["h100"]
KINDS = {"1f1b": (1, "1f1b"), "gpipe": (1, "gpipe"), "zero-bubble": (1, "zero-bubble"), "interleaved": (2, "1f1b")}


def case(model, p, m, kind):
    virtual, schedule = KINDS[kind]
    layout = Layout(tp=8, pp=p, virtual=virtual, num_microbatches=m, schedule=schedule, overlap=False)
    return layout, pipeline_of(ZOO[model], layout, Setup(H100))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (8, 64)])
def test_equal_stages_without_messages_take_exactly_what_the_formula_says(kind, p, m):
    layout, pipeline = case("gpt3-175b", p, m, kind)
    equal = replace(pipeline, output=NOTHING, hop=0.0)
    work = m * equal.stages[0].both
    assert played_seconds(equal, layout) == pytest.approx(work + bubble_seconds(equal, layout))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["gpt3-175b", "llama3-405b", "llama3-8b"])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (8, 8), (16, 64)])
def test_real_stages_take_about_what_the_formula_says(model, kind, p, m):
    """With an output layer as long as several of the 8B's layers the formula is too slow, by a tenth at most."""
    layout, pipeline = case(model, p, m, kind)
    step = step_seconds(ZOO[model], layout, Setup(H100))
    assert 0.98 < (step.total - step.data - step.optimizer) / played_seconds(pipeline, layout) < 1.12


def test_the_zero_bubble_schedule_fills_most_of_the_bubble():
    seconds = {
        kind: bubble_seconds(pipeline, layout)
        for kind in KINDS
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
