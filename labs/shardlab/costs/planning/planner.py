"""Plan a model on a cluster: enumerate layouts, drop those that do not fit, rank the rest by predicted time."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from shardlab.costs.clock.calibrated import FP32
from shardlab.costs.clock.parts import work_seconds
from shardlab.costs.clock.setup import Setup, speed_of
from shardlab.costs.clock.step import StepSeconds, busiest, pipeline_of, step_seconds
from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.layout import Layout
from shardlab.costs.memory.frameworks import DEEPSEEK_FP8, MEGATRON
from shardlab.costs.memory.here import peak_here
from shardlab.costs.memory.stage import MemoryBytes, peak_memory
from shardlab.costs.models.model import Transformer, num_parameters
from shardlab.costs.planning.candidates import Search, candidates, check_fixed

USABLE = 0.92  # of a GPU's memory: the rest is for the driver, the collectives' buffers and fragmentation
GRADIENT_BYTES = 4  # summed in fp32


@dataclass(frozen=True)
class Plan:
    """A layout with its costs: bytes of the fullest rank and seconds of a step.

    cut: layers of each chunk in order, if the step was timed with them; () if the formulas assume average chunks.
    """

    layout: Layout
    memory: MemoryBytes
    step: StepSeconds
    cut: tuple[int, ...] = ()


class NothingFits(ValueError):
    """No layout of the search fits, or none exists. The message names the closest one and what it lacks."""


def plan(
    model: Transformer,
    gpu: Accelerator,
    num_gpus: int,
    sequences: int,
    *,
    search: Search | None = None,
    fp8: bool = False,
    imbalance: float = 1.0,
    best: int = 5,
) -> list[Plan]:
    """The fastest layouts that fit, best first; ties are ordered by memory.

    search: what to try. imbalance: rows of the rank with the fullest experts over the mean, 1.0 for even loads
    (`costs.fullest_expert`).

    Raises NothingFits if there is none, naming the closest layout and what it lacks; ValueError for sizes below 1.
    """
    if num_gpus < 1 or sequences < 1 or best < 1:
        raise ValueError(f"{num_gpus} GPUs, {sequences} sequences per step, the {best} best: use 1 or more of each")
    search = search or Search()
    check_fixed(search.fixed, num_gpus)
    limit = usable_bytes(gpu)
    fitting: list[Plan] = []
    closest: tuple[float, Layout] | None = None
    for layout in candidates(model, gpu, num_gpus, sequences, search):
        memory = memory_of(model, layout, fp8=fp8)
        if memory.total <= limit:
            fitting.append(Plan(layout, memory, seconds_of(model, layout, gpu, fp8=fp8, imbalance=imbalance)))
            if search.some_layers and (fewer := fewest_recomputed(model, layout, limit, fp8=fp8)):
                held = memory_of(model, fewer, fp8=fp8)
                fitting.append(Plan(fewer, held, seconds_of(model, fewer, gpu, fp8=fp8, imbalance=imbalance)))
        elif closest is None or memory.total < closest[0]:
            closest = (memory.total, layout)
    if not fitting:
        raise NothingFits(_nothing_fits(model, gpu, num_gpus, sequences, closest))
    return _ranked(fitting)[:best]


def usable_bytes(gpu: Accelerator) -> float:
    """How much of a GPU's memory a plan may use."""
    return gpu.memory_bytes * USABLE


def memory_of(model: Transformer, layout: Layout, *, fp8: bool = False) -> MemoryBytes:
    """Memory of the fullest rank as plans count it: gradients in fp32; "norms" in fp8 keeps what DeepSeek-V3 keeps.

    A float32 model is trained on a CPU by the course's own trainer.
    """
    if model.number_bytes == FP32:
        return peak_here(model, layout)
    kept = DEEPSEEK_FP8 if fp8 and layout.recompute == "norms" else MEGATRON
    return peak_memory(model, layout, gradient_bytes=GRADIENT_BYTES, framework=kept)


def seconds_of(
    model: Transformer, layout: Layout, gpu: Accelerator, *, fp8: bool = False, imbalance: float = 1.0
) -> StepSeconds:
    """Step time as plans count it, with gradients summed in fp32."""
    return step_seconds(model, layout, Setup(gpu, fp8=fp8, gradient_bytes=GRADIENT_BYTES, imbalance=imbalance))


def work_by_kind(model: Transformer, layout: Layout, gpu: Accelerator) -> dict[str, float]:
    """The `compute` of `seconds_of` by kind, on an accelerator with known peaks; the kinds add up to it.

    Matrix products are timed by their FLOPs alone; reading operands, adding gradients to their fp32 sums, norms,
    activations and kernel launches are "memory".
    """
    setup = Setup(gpu, gradient_bytes=GRADIENT_BYTES)
    pipeline = pipeline_of(model, layout, setup)
    no_memory = speed_of(gpu, setup.efficiency)._replace(memory=inf, launch=0.0)
    with_scores = work_seconds(model, layout, no_memory).both
    products = work_seconds(model, layout, no_memory._replace(attention=inf, exponentials=inf)).both
    layers, outputs = (layout.num_microbatches * count for count in busiest(pipeline, layout))
    return {
        "matrix products": layers * products,
        "attention scores": layers * (with_scores - products),
        "memory": layers * (pipeline.kernels.both - with_scores),
        "output layer": outputs * pipeline.output.both,
    }


def fewest_recomputed(model: Transformer, layout: Layout, limit: float, *, fp8: bool = False) -> Layout | None:
    """The layout with the fewest recomputed layers per chunk that fits; None if that is all or none of them."""
    each = -(-model.layers // layout.chunks)
    if layout.recompute != "full" or each == 1:
        return None

    def fits(k: int) -> bool:
        some = replace(layout, recomputed=(k, each)) if k else replace(layout, recompute="none")
        return memory_of(model, some, fp8=fp8).total <= limit

    if fits(0):
        return None
    fewest = bisect_left(range(each), True, lo=1, key=fits)
    return replace(layout, recomputed=(fewest, each)) if fewest < each else None


def pareto(plans: Iterable[Plan]) -> list[Plan]:
    """The plans that no other plan beats in both time and memory: fastest first, then ever smaller ones."""
    front: list[Plan] = []
    for one in sorted(plans, key=_time_and_memory):
        if not front or one.memory.total < front[-1].memory.total:
            front.append(one)
    return front


def _ranked(plans: list[Plan]) -> list[Plan]:
    """Plans by time, then by memory; of plans that are equal in both only the first, which is the simplest."""
    alike: dict[tuple[float, float], Plan] = {}
    for one in plans:
        alike.setdefault(_time_and_memory(one), one)
    return sorted(alike.values(), key=_time_and_memory)


def _time_and_memory(one: Plan) -> tuple[float, float]:
    return one.step.total, one.memory.total


# ---- if nothing fits -------------------------------------------------------------------------------------------------


def _nothing_fits(
    model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int, closest: tuple[float, Layout] | None
) -> str:
    size = f"{num_parameters(model) / 1e9:.1f}B parameters"
    if closest is None:
        return (
            f"no layout splits {model.name} ({model.layers} layers, {model.heads} heads) over {num_gpus} GPUs with "
            f"{sequences} sequences per step: use a number of GPUs with more divisors, or a batch divisible by them"
        )
    total, layout = closest
    lacks = (total - usable_bytes(gpu)) / GIB
    again = layout.recompute.replace("none", "no")
    return (
        f"{model.name} ({size}) does not fit on {num_gpus} {gpu.name}: the closest, tp {layout.tp} pp {layout.pp} "
        f"dp {layout.dp}, ZeRO {layout.zero}, {again} recomputation, needs {total / GIB:.1f} GiB on its fullest rank, "
        f"{lacks:.1f} GiB more than {USABLE:.0%} of {gpu.memory_bytes / GIB:.0f} GiB: use more GPUs or larger ones"
    )
