"""A plan for a model on a cluster: enumerate layouts, leave out what does not fit, rank the rest by predicted time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from shardlab.costs.hardware import GIB, Accelerator
from shardlab.costs.layout import Layout, Recompute, check_layout
from shardlab.costs.memory import MemoryBytes, peak_memory
from shardlab.costs.model import Transformer, divisors, num_parameters
from shardlab.costs.step import StepSeconds, step_seconds

USABLE = 0.92  # of a GPU's memory: the rest is the driver's, the collectives' buffers and fragments


@dataclass(frozen=True)
class Plan:
    """A layout with what it costs: bytes of the fullest rank, seconds of a step."""

    layout: Layout
    memory: MemoryBytes
    step: StepSeconds


@dataclass(frozen=True)
class Search:
    """What a planner tries. The defaults are wider than the rules of thumb, so that these can be tested."""

    max_tp: int = 16
    microbatches: Sequence[int] = (1, 2, 4, 8)
    zero: Sequence[int] = (1, 3)
    recompute: Sequence[Recompute] = get_args(Recompute)
    virtual: Sequence[int] = (1, 2, 4)
    max_cp: int = 16


def plan(
    model: Transformer,
    gpu: Accelerator,
    num_gpus: int,
    sequences: int,
    *,
    search: Search = Search(),
    fp8: bool = False,
    best: int = 5,
) -> list[Plan]:
    """The fastest layouts that fit, best first; gradients are summed in fp32.

    Raises ValueError when none exists: which came closest, and what it lacks.
    """
    if num_gpus < 1 or sequences < 1:
        raise ValueError(f"{num_gpus} GPUs and {sequences} sequences a step: use 1 or more of each")
    limit = gpu.memory_bytes * USABLE
    fitting: list[Plan] = []
    closest: tuple[float, Layout] | None = None
    for layout in candidates(model, gpu, num_gpus, sequences, search):
        memory = peak_memory(model, layout, gradient_bytes=4)
        if memory.total <= limit:
            step = step_seconds(model, layout, gpu, fp8=fp8, gradient_bytes=4)
            fitting.append(Plan(layout, memory, step))
        elif closest is None or memory.total < closest[0]:
            closest = (memory.total, layout)
    if not fitting:
        raise ValueError(_nothing_fits(model, gpu, num_gpus, sequences, closest))
    return sorted(fitting, key=lambda found: found.step.total)[:best]


def candidates(model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int, search: Search) -> Iterator[Layout]:
    """Every layout of this world and batch that the model allows; sequence parallel wherever there is tensor parallel.

    ZeRO-3 comes without a pipeline, which would gather its parameters for every microbatch.
    """
    for tp in (d for d in divisors(num_gpus) if d <= min(search.max_tp, 2 * gpu.per_node)):
        for pp in (d for d in divisors(num_gpus // tp) if d <= model.layers):
            for cp in (d for d in divisors(num_gpus // tp // pp) if d <= search.max_cp):
                if cp > 1 and model.sequence < 16384:
                    continue
                mesh = Layout(tp=tp, pp=pp, cp=cp, dp=num_gpus // (tp * pp * cp), sequence_parallel=tp > 1)
                yield from _variants(model, mesh, sequences, search)


def _variants(model: Transformer, mesh: Layout, sequences: int, search: Search) -> Iterator[Layout]:
    """The layouts of one mesh: experts, microbatches, chunks, ZeRO, recomputation."""
    sharers = mesh.tp * mesh.cp * mesh.dp
    eps = [e for e in divisors(model.experts) if sharers % e == 0] if model.experts else [1]
    for microbatch in search.microbatches:
        rounds, rest = divmod(sequences, microbatch * mesh.dp)
        if rest or not rounds:
            continue
        for virtual in search.virtual if mesh.pp > 1 else (1,):
            if virtual > 1 and (rounds % mesh.pp or model.layers < mesh.pp * virtual):
                continue
            shape = replace(mesh, microbatch=microbatch, num_microbatches=rounds, virtual=virtual)
            try:
                check_layout(model, shape)
            except ValueError:
                break
            for zero in search.zero:
                if zero == 3 and mesh.pp > 1:
                    continue
                for ep in eps:
                    for recompute in search.recompute:
                        if recompute == "selective" and model.flash:
                            continue  # a fused attention keeps no scores
                        yield replace(shape, zero=zero, ep=ep, recompute=recompute)


@dataclass(frozen=True)
class Claim:
    """A rule of thumb beside what the planner finds: the best plan that keeps it and the best that does not."""

    rule: str
    keeps: Plan | None
    breaks: Plan | None

    @property
    def holds(self) -> bool:
        """Whether the best plan keeps the rule."""
        if self.keeps is None or self.breaks is None:
            return self.breaks is None
        return self.keeps.step.total <= self.breaks.step.total


def check_rules(model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int) -> list[Claim]:
    """'TP up to 8, PP across machines, DP last' as claims: each is tested on the best plans with and without it.

    Raises ValueError when nothing fits.
    """
    everything = plan(model, gpu, num_gpus, sequences, best=1_000_000)
    rules = {
        f"tensor parallelism stays inside a server (tp <= {gpu.per_node})": lambda x: x.tp <= gpu.per_node,
        "the model is cut by a pipeline across servers (pp > 1)": lambda x: x.pp > 1,
        "data parallelism takes what is left (dp >= pp)": lambda x: x.dp >= x.pp,
    }
    return [
        Claim(
            rule,
            keeps=next((found for found in everything if kept(found.layout)), None),
            breaks=next((found for found in everything if not kept(found.layout)), None),
        )
        for rule, kept in rules.items()
    ]


def _nothing_fits(
    model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int, closest: tuple[float, Layout] | None
) -> str:
    size = f"{num_parameters(model) / 1e9:.1f}B parameters"
    if closest is None:
        return (
            f"no layout splits {model.name} ({model.layers} layers, {model.heads} heads) over {num_gpus} GPUs with "
            f"{sequences} sequences a step: use a number of GPUs with more divisors, or a batch divisible by them"
        )
    total, layout = closest
    lacks = (total - gpu.memory_bytes * USABLE) / GIB
    return (
        f"{model.name} ({size}) does not fit on {num_gpus} {gpu.name}: the closest, tp {layout.tp} pp {layout.pp} "
        f"dp {layout.dp} with {layout.recompute} recomputation, needs {total / GIB:.1f} GiB on its fullest rank, "
        f"{lacks:.1f} GiB more than {USABLE:.0%} of {gpu.memory_bytes / GIB:.0f} GiB: use more GPUs or larger ones"
    )
