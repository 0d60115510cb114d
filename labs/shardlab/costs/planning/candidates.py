"""The planner's search space: every layout for a number of GPUs and a batch, within the bounds of a search.

A batch in tokens becomes a number of sequences that the cluster can share evenly, which a round token count rarely is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import get_args

from shardlab.costs.context import ContextWay
from shardlab.costs.hardware import Accelerator
from shardlab.costs.layout import Layout, Recompute, ScheduleName, check_layout
from shardlab.costs.models.model import Transformer, divisors


@dataclass(frozen=True)
class Search:
    """The planner's search space. The defaults are wider than the rules of thumb, so that these can be tested.

    virtual: chunks per stage; one layer per chunk is tried as well, up to the largest of these numbers.
    zero_with_pipeline: the highest ZeRO stage with a pipeline. 1 as in Megatron; Llama 3 was trained with 2 (arXiv
    2407.21783, section 3.3.2), for which the time model reduces once per step and the memory model shards gradients.
    some_layers: whether to try full recomputation of only the fewest layers per chunk that make a layout fit.
    context: the ways of context parallelism, the first one for cp = 1. fixed: degrees that are not searched, by axis,
    such as {"tp": 8, "pp": 16}; the other bounds do not apply to these axes.
    """

    max_tp: int = 16
    max_cp: int = 16
    least_sequence_for_cp: int = 16384  # with shorter ones, attention on a rank is too short to hide the ring
    microbatches: Sequence[int] = (1, 2, 4, 8, 16)
    zero: Sequence[int] = (0, 1, 2, 3)
    recompute: Sequence[Recompute] = ("none", "selective", "full")
    some_layers: bool = False
    zero_with_pipeline: int = 1
    virtual: Sequence[int] = (1, 2, 4, 8)
    schedules: Sequence[ScheduleName] = ("1f1b", "gpipe", "zero-bubble")
    context: Sequence[ContextWay] = get_args(ContextWay)
    fixed: Mapping[str, int] = field(default_factory=dict)

    def allows(self, axis: str, degree: int, others: bool = True) -> bool:
        """Whether to try a degree: it must equal the axis's fixed degree or, if there is none, satisfy `others`."""
        return self.fixed[axis] == degree if axis in self.fixed else others


def candidates(model: Transformer, gpu: Accelerator, num_gpus: int, sequences: int, search: Search) -> Iterator[Layout]:
    """Every layout of this world and batch that the model and the servers allow.

    Sequence parallelism comes with tensor parallelism, whose groups fill a server or divide it evenly.
    """
    for tp, pp, cp, dp in _degrees(model, gpu, num_gpus, search):
        for way in search.context if cp > 1 else search.context[:1]:
            mesh = Layout(tp=tp, pp=pp, cp=cp, dp=dp, sequence_parallel=tp > 1, context=way)
            for shape in _shapes(model, mesh, sequences, search):
                yield from _variants(model, shape, search)


def _degrees(
    model: Transformer, gpu: Accelerator, num_gpus: int, search: Search
) -> Iterator[tuple[int, int, int, int]]:
    """tp, pp, cp and dp whose product is the number of GPUs."""
    sizes = divisors(num_gpus)
    long_enough = model.sequence >= search.least_sequence_for_cp
    for tp in sizes:
        if not search.allows("tp", tp, tp <= search.max_tp and not (gpu.per_node % tp and tp % gpu.per_node)):
            continue
        for pp in (d for d in sizes if num_gpus // tp % d == 0 and d <= model.layers and search.allows("pp", d)):
            for cp in (d for d in sizes if num_gpus // tp // pp % d == 0):
                dp = num_gpus // (tp * pp * cp)
                bounds = cp == 1 or (cp <= search.max_cp and long_enough)
                if search.allows("cp", cp, bounds) and search.allows("dp", dp):
                    yield tp, pp, cp, dp


def check_fixed(fixed: Mapping[str, int], num_gpus: int) -> None:
    """Raise ValueError for degrees that are impossible with this number of GPUs."""
    for axis, degree in fixed.items():
        if degree < 1 or num_gpus % degree:
            raise ValueError(f"{axis} {degree} does not divide {num_gpus} GPUs: use one of {divisors(num_gpus)}")
    dense = {axis: degree for axis, degree in fixed.items() if axis != "ep"}
    whole = prod(dense.values())
    if num_gpus % whole or (len(dense) == 4 and whole != num_gpus):
        text = " x ".join(f"{axis} {degree}" for axis, degree in dense.items())
        raise ValueError(f"{text} is {whole}, but there are {num_gpus} GPUs: give degrees whose product divides them")


def _shapes(model: Transformer, mesh: Layout, sequences: int, search: Search) -> Iterator[Layout]:
    """A mesh with every microbatch size that the batch allows and every number of chunks per stage."""
    for microbatch in search.microbatches:
        rounds, rest = divmod(sequences, microbatch * mesh.dp)
        if rest or not rounds:
            continue
        for virtual in _chunks(model, mesh, search):
            if virtual > 1 and rounds % mesh.pp:
                continue
            shape = replace(mesh, microbatch=microbatch, num_microbatches=rounds, virtual=virtual)
            try:
                check_layout(model, shape)
            except ValueError:
                break
            yield shape


def _chunks(model: Transformer, mesh: Layout, search: Search) -> list[int]:
    if mesh.pp == 1:
        return [1]
    single = model.layers // mesh.pp
    return sorted({*search.virtual, *([single] if single < max(search.virtual) else [])})


def _variants(model: Transformer, shape: Layout, search: Search) -> Iterator[Layout]:
    """A shape with its choices of experts, ZeRO stage, recomputation and schedule.

    ZeRO-3 is tried only without a pipeline: with one it would gather in every microbatch. Selective recomputation is
    tried only if scores are kept. Without a pipeline there is no schedule to choose, and only 1F1B has interleaved
    chunks.
    """
    sharers = shape.tp * shape.cp * shape.dp
    eps = [e for e in divisors(model.experts) if sharers % e == 0] if model.experts else [1]
    eps = [e for e in eps if search.allows("ep", e)]
    most = search.zero_with_pipeline if shape.pp > 1 else 3
    stages = [zero for zero in search.zero if zero <= most] if shape.state_sharers > 1 else [0]
    again = [one for one in search.recompute if one != "selective" or not model.flash]
    schedules: Sequence[ScheduleName] = search.schedules if shape.pp > 1 else ("1f1b",)
    if shape.virtual > 1:
        schedules = [one for one in schedules if one == "1f1b"]
    schedules = [one for one in schedules if _may_be(model, shape, one)]
    for ep in eps:
        for zero in stages:
            for recompute in again:
                for schedule in schedules:
                    yield replace(shape, ep=ep, zero=zero, recompute=recompute, schedule=schedule)


def _may_be(model: Transformer, shape: Layout, schedule: ScheduleName) -> bool:
    """Whether a V-shaped schedule supports these sizes; the plain ones support all."""
    try:
        check_layout(model, replace(shape, schedule=schedule))
    except ValueError:
        return False
    return True


MOST_CHANGE = 0.05  # share of the tokens: a decimal "4M" is 4.9% less than 2^22 = 4,194,304


@dataclass(frozen=True)
class TokenBatch:
    """The requested tokens per step, and the number of sequences of this length that is planned for them."""

    asked_tokens: int
    sequence: int
    sequences: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.sequence

    @property
    def change(self) -> float:
        """Planned over requested, p/a - 1."""
        return self.tokens / self.asked_tokens - 1


def exact_batch(tokens: int, sequence: int) -> TokenBatch:
    """The nearest whole number of sequences. Raises ValueError for less than one."""
    if tokens < sequence:
        raise ValueError(f"{tokens:,} tokens are fewer than one sequence of {sequence:,}: use {sequence} or more")
    return TokenBatch(tokens, sequence, round(tokens / sequence))


def shared_batch(tokens: int, sequence: int, num_gpus: int) -> TokenBatch:
    """The nearest batch, within 5%, that is a multiple of the largest possible divisor of the number of GPUs.

    A layout splits a batch into dp * b * m sequences, and an interleaved pipeline runs m in groups of pp, so factors of
    the GPUs are useful for dp and pp. 1,953 sequences = 3 * 3 * 7 * 31 on 1,024 GPUs allow no even dp; 2,048 allow all.
    Raises ValueError for less than one sequence.
    """
    exact = exact_batch(tokens, sequence)
    for divisor in reversed(divisors(num_gpus)):
        near = TokenBatch(tokens, sequence, round(tokens / sequence / divisor) * divisor)
        if near.sequences and abs(near.change) <= MOST_CHANGE:
            return near
    return exact
