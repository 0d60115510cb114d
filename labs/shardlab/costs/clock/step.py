"""Seconds of a training step: work of each stage, exposed communication, pipeline bubble and optimizer.

Symbols: p stages, v chunks, m microbatches, t tensor parallel size, d data parallel size.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from shardlab.costs.clock import here
from shardlab.costs.clock.kernels import Passes, total
from shardlab.costs.clock.parts import data_seconds, parts_of, tied_seconds
from shardlab.costs.clock.setup import Setup, Speed, speed_of
from shardlab.costs.layout import Layout
from shardlab.costs.memory.states import layers_of_stages, parameters_on_stage
from shardlab.costs.models.model import Transformer


@dataclass(frozen=True)
class StepSeconds:
    """Time of a step on the busiest stage by part; the parts add up to the total."""

    compute: float
    tensor: float
    context: float
    expert: float
    boundaries: float
    bubble: float
    data: float
    optimizer: float

    @property
    def total(self) -> float:
        return sum(vars(self).values())


def bubble_share(stages: int, microbatches: int, virtual: int = 1) -> float:
    """Idle share of the step with equal stages, (p-1)/(vm + p-1) (arXiv 2104.04473, section 2.2)."""
    if min(stages, microbatches, virtual) < 1:
        raise ValueError(f"{stages} stages, {microbatches} microbatches, {virtual} chunks: use 1 or more of each")
    return (stages - 1) / (virtual * microbatches + stages - 1)


def optimizer_seconds(model: Transformer, layout: Layout, speed: Speed) -> float:
    """Adam reads and writes 12 bytes of state per parameter, reads a gradient and writes a weight: 28 bytes."""
    shard = parameters_on_stage(model, layout, 0)
    split = layout.zero >= 1
    dense = shard.dense / (layout.state_sharers if split else 1)
    return 28 * (dense + shard.experts / (layout.expert_sharers if split else 1)) / speed.memory


def balanced_stages(layers: int, stages: int, output: float) -> tuple[int, ...]:
    """Layers of each of two or more stages, minimizing the longest; `output`: cost of the head in layers."""

    def longest(last: int) -> float:
        return max(last + output, -(-(layers - last) // (stages - 1)))

    last = min(range(layers // stages + 1), key=longest)
    return (*layers_of_stages(layers - last, stages - 1), last)


@dataclass(frozen=True)
class Pipeline:
    """One microbatch of a step: a layer's kernels and messages, layers per stage, and the output layer on the last
    stage.

    hop: exposed seconds to send one activation to the next stage, or its gradient back.
    """

    layers: tuple[int, ...]
    kernels: Passes
    tensor: Passes
    context: Passes
    expert: Passes
    output: Passes
    hop: float

    @cached_property
    def layer(self) -> Passes:
        return total([self.kernels, self.tensor, self.context, self.expert])

    @cached_property
    def stages(self) -> list[Passes]:
        stages = [self.layer.times(count) for count in self.layers]
        return [*stages[:-1], stages[-1] + self.output]


def pipeline_of(model: Transformer, layout: Layout, setup: Setup) -> Pipeline:
    """The work of each stage in a microbatch. A recomputed forward repeats its messages in the backward."""
    if setup.gpu.measured:
        return _pipeline(model, layout, setup)
    alike = replace(layout, zero=3 if layout.zero == 3 else 0, num_microbatches=2 * layout.pp)
    if layout.schedule != "dualpipe":
        alike = replace(alike, schedule="1f1b")
    return _pipeline(model, alike, setup)


@lru_cache(maxsize=256)  # a planner asks for the same one with each ZeRO stage, schedule and number of microbatches
def _pipeline(model: Transformer, layout: Layout, setup: Setup) -> Pipeline:
    parts = (here.parts_of if setup.gpu.measured else parts_of)(model, layout, setup)
    layers = layers_of_stages(model.layers, layout.pp)
    if setup.software.balanced_stages and layout.pp > 1:
        each = total([parts.kernels, parts.tensor, parts.context, parts.expert]).both
        layers = balanced_stages(model.layers, layout.pp, parts.output.both / each)
    return Pipeline(layers, *parts)


def busiest(pipeline: Pipeline, layout: Layout) -> tuple[float, float]:
    """Layers and output layers that a microbatch passes on the busiest rank; DualPipe takes half from each of two
    stages.
    """
    ranks = [(float(count), float(stage == layout.pp - 1)) for stage, count in enumerate(pipeline.layers)]
    if layout.schedule == "dualpipe":
        ranks = [
            ((layers + others) / 2, (output + other) / 2)
            for (layers, output), (others, other) in zip(ranks, ranks[::-1], strict=True)
        ]
    return max(ranks, key=lambda rank: rank[0] * pipeline.layer.both + rank[1] * pipeline.output.both)


def bubble_seconds(pipeline: Pipeline, layout: Layout) -> float:
    """Time that the slowest stage waits for the others' one microbatch at the start and end, and for its sends.

    1F1B and GPipe: sum of T - T_max; with v chunks 1/v of that (arXiv 2104.04473, section 2.2). Zero-bubble schedules
    fill the wait with weight gradients: ZB-H1 waits F + I - W of each other stage (arXiv 2401.10241, section 3),
    ZBV |F - W| and |I - W| of half a stage. DualPipe waits F + B + B - 3W of p/2 - 1 stages (arXiv 2412.19437, table
    2).
    `pipeline_parallel.planned` simulates the same pipelines on a clock.
    """
    stages = pipeline.stages
    waits = [stage.both for stage in stages]
    slowest = max(range(len(waits)), key=waits.__getitem__)
    if layout.schedule == "zero-bubble":
        waits = [max(0.0, stage.both - 2 * stage.weights) for stage in stages]
    if layout.schedule == "zbv":
        waits = [max(0.0, stage.both - 3 * stage.weights) / 2 for stage in stages]
    if layout.schedule == "dualpipe":
        waits = [max(0.0, stage.both + stage.backward - 3 * stage.weights) / 2 for stage in stages]
    waits.pop(slowest)
    if layout.schedule == "dualpipe":
        waits = sorted(waits)[:-1]
    return sum(waits) / layout.virtual + 2 * pipeline.hop * (layout.pp - 1)


def step_seconds(model: Transformer, layout: Layout, setup: Setup) -> StepSeconds:
    """Seconds of a step: m microbatches on the slowest stage, its bubble, data parallelism and the optimizer.

    With equal stages that is (m + (p-1)/v) T + data + optimizer.
    """
    pipeline = pipeline_of(model, layout, setup)
    m, (count, output) = layout.num_microbatches, busiest(pipeline, layout)
    kernels = count * pipeline.kernels.both
    if setup.gpu.measured:
        tied, data, optimizer = (of(model, layout, setup.gpu) for of in (here.tied, here.data, here.optimizer))
    else:
        tied, data = tied_seconds(model, layout, setup), data_seconds(model, layout, setup, kernels)
        optimizer = optimizer_seconds(model, layout, speed_of(setup.gpu, setup.efficiency))
    return StepSeconds(
        compute=m * (kernels + output * pipeline.output.both),
        tensor=m * count * pipeline.tensor.both,
        context=m * count * pipeline.context.both,
        expert=m * count * pipeline.expert.both,
        boundaries=m * 2 * layout.virtual * pipeline.hop + tied,
        bubble=bubble_seconds(pipeline, layout),
        data=data,
        optimizer=optimizer,
    )
