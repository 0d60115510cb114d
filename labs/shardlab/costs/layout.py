"""How a model is split over ranks, as data: degree of each axis, microbatches, schedule and recomputation.

Symbols (arXiv 2104.04473): t tensor, p pipeline, d data parallel size, v chunks per stage, b microbatch size, m
microbatches per step in one pipeline. c is the context parallel size, e the expert parallel size.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from shardlab.costs.context import ContextWay
from shardlab.costs.models.model import LARGEST, Transformer, divisors
from shardlab.meant import instead

Recompute = Literal["none", "selective", "full", "norms"]
ScheduleName = Literal["1f1b", "gpipe", "zero-bubble", "zbv", "dualpipe"]


_CHOICES = (("recompute", get_args(Recompute)), ("schedule", get_args(ScheduleName)), ("context", get_args(ContextWay)))


@dataclass(frozen=True)
class Layout:
    """Degrees of the five axes and what each step does. Raises ValueError for inconsistent sizes.

    ep: experts are spread over e of the tp * cp * dp ranks that share a stage and replicated over the rest.
    virtual: chunks of layers per rank, above 1 for the interleaved schedule.
    zero: ZeRO stage over the dp * cp ranks that hold the same parameters.
    overlap: data-parallel collectives overlap with the backward, as in DDP with buckets.
    tensor_overlap: tensor-parallel collectives overlap with matmuls that are split into pieces ("async TP").
    scatter_gather: each tensor-parallel rank sends 1/t of an activation to the next stage (arXiv 2104.04473, section
    4.1); in DeepSpeed's pipeline each rank sends the whole.
    context: how the cp ranks reach each other's keys and values.
    recompute: "norms" repeats only norms, activation functions and the up-projections of latent attention
    (DeepSeek-V3, arXiv 2412.19437, section 3.2.3). recomputed: (k, n) with "full" recomputes k of each chunk's n
    layers; None means all of them.
    schedule: "zbv" holds two chunks per rank in a V (arXiv 2401.10241, section 6), "dualpipe" a stage and its mirror
    image, so two copies of the model (arXiv 2412.19437, section 3.2.1).
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    virtual: int = 1
    microbatch: int = 1
    num_microbatches: int = 1
    sequence_parallel: bool = False
    zero: int = 0
    recompute: Recompute = "none"
    schedule: ScheduleName = "1f1b"
    overlap: bool = True
    tensor_overlap: bool = False
    scatter_gather: bool = True
    context: ContextWay = "ring"
    recomputed: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp", "cp", "ep", "virtual", "microbatch", "num_microbatches"):
            size = getattr(self, name)
            if not isinstance(size, int) or not 1 <= size <= LARGEST:
                raise ValueError(f"{name} = {size} is not a size: use 1 or more, a whole number up to {LARGEST}")
        if self.zero not in range(4):
            raise ValueError(f"there is no ZeRO stage {self.zero}: use 0, 1, 2 or 3")
        for name, known in _CHOICES:
            if getattr(self, name) not in known:
                raise ValueError(f"there is no {name} {getattr(self, name)!r}: {instead(getattr(self, name), known)}")
        sharers = self.tp * self.cp * self.dp
        if sharers % self.ep:
            raise ValueError(
                f"ep = {self.ep} does not divide the {sharers} ranks of a stage (tp*cp*dp): use {divisors(sharers)}"
            )
        if self.sequence_parallel and self.tp == 1:
            raise ValueError("sequence parallelism needs tensor parallelism: use tp of 2 or more, or turn it off")
        if self.virtual > 1 and self.pp == 1:
            raise ValueError(f"virtual = {self.virtual} chunks need a pipeline: use pp of 2 or more, or virtual = 1")
        if self.virtual > 1 and self.schedule != "1f1b":
            raise ValueError(
                f"only 1F1B has interleaved chunks: use virtual = 1 with {self.schedule}, or schedule = '1f1b'"
            )
        if self.schedule in ("zbv", "dualpipe"):
            self._check_v()
        if self.recomputed is not None and not (
            self.recompute == "full" and 1 <= self.recomputed[0] <= self.recomputed[1]
        ):
            raise ValueError(
                f"recomputed = {self.recomputed}, recompute {self.recompute!r}: use (k, n), k of n layers, with 'full'"
            )
        if self.virtual > 1 and self.num_microbatches % self.pp:
            raise ValueError(
                f"the interleaved schedule runs microbatches in groups of pp = {self.pp}: {self.num_microbatches} "
                f"is not a multiple of it, use {self.num_microbatches // self.pp * self.pp or self.pp}"
            )

    def _check_v(self) -> None:
        """Check the requirements of DualPipe and ZBV."""
        p, m = self.pp, self.num_microbatches
        if p == 1:
            raise ValueError(f"{self.schedule} needs a pipeline: use pp of 2 or more, or schedule = '1f1b'")
        if self.schedule == "zbv" and m < 2 * p:
            raise ValueError(f"ZBV needs 2 microbatches per stage to leave no bubble: use {2 * p} or more, not {m}")
        if self.schedule == "dualpipe" and (p % 2 or m % 2 or m < 2 * p):
            raise ValueError(
                f"DualPipe needs an even number of stages and an even number of microbatches, at least 2 per stage: "
                f"{p} stages and {m} microbatches, use {p + p % 2} and {max(m + m % 2, 2 * (p + p % 2))}"
            )

    @property
    def again(self) -> float:
        """Share of the layers whose whole forward is repeated in the backward."""
        if self.recompute != "full":
            return 0.0
        return 1.0 if self.recomputed is None else self.recomputed[0] / self.recomputed[1]

    @property
    def chunks(self) -> int:
        """Number of pieces the layers are split into: p v, or 2 p for ZBV."""
        return self.pp * (2 if self.schedule == "zbv" else self.virtual)

    @property
    def world(self) -> int:
        return self.tp * self.pp * self.dp * self.cp

    @property
    def sequences_per_step(self) -> int:
        """The global batch B = b * m * d."""
        return self.microbatch * self.num_microbatches * self.dp

    @property
    def state_sharers(self) -> int:
        """Ranks that hold the same parameters, over which ZeRO splits: N in arXiv 1910.02054."""
        return self.dp * self.cp

    @property
    def expert_sharers(self) -> int:
        """Ranks that hold the same expert."""
        return self.tp * self.cp * self.dp // self.ep


def check_layout(model: Transformer, layout: Layout) -> None:
    """Check that this model can be split this way. Raises ValueError with the sizes that would work."""
    if model.heads % layout.tp:
        raise ValueError(
            f"{model.heads} heads cannot be split over {layout.tp} ranks: use a tensor-parallel size of "
            f"{_listed(divisors(model.heads))}"
        )
    if model.layers < layout.chunks and not ends_alone(model, layout):
        each = layout.chunks // layout.pp
        raise ValueError(
            f"{model.layers} layers cannot fill {layout.pp} stages{f' of {each} chunks' if each > 1 else ''}: use at "
            f"most {model.layers // each} stages"
        )
    pieces = layout.cp * (2 if layout.cp > 1 else 1)
    if model.sequence % pieces:
        raise ValueError(
            f"a sequence of {model.sequence} cannot be cut into {pieces} pieces of context parallelism (2 per rank): "
            f"use a length divisible by {pieces}"
        )
    if layout.context == "ulysses" and model.heads // layout.tp % layout.cp:
        raise ValueError(
            f"{model.heads // layout.tp} heads per rank cannot be split over {layout.cp} ranks by Ulysses: use a "
            f"context-parallel size of {_listed(divisors(model.heads // layout.tp))}"
        )
    if layout.sequence_parallel and model.sequence // layout.cp % layout.tp:
        raise ValueError(
            f"{model.sequence // layout.cp} positions cannot be split over {layout.tp} ranks: use a tensor-parallel "
            f"size of {_listed([d for d in divisors(model.heads) if model.sequence // layout.cp % d == 0])}"
        )
    if layout.ep > 1 and not model.experts:
        raise ValueError(f"{model.name} has no experts to spread over {layout.ep} ranks: use ep = 1")
    if layout.ep > 1 and model.experts % layout.ep:
        raise ValueError(
            f"{model.experts} experts cannot be spread over {layout.ep} ranks: use an expert-parallel size of "
            f"{_listed(divisors(model.experts))}"
        )


def ends_alone(model: Transformer, layout: Layout) -> bool:
    """Whether the first chunk is only the embedding, the last only the output layer, and every other one layer.

    This is how Llama 3 405B was split: 126 layers over 16 stages of 8 chunks (arXiv 2407.21783, section 3.3.2).
    """
    return layout.virtual > 1 and model.layers + 2 == layout.chunks


def check_world(layout: Layout, num_gpus: int) -> None:
    """Check that the degrees multiply to `num_gpus`. Raises ValueError suggesting another dp or number of GPUs."""
    if layout.world == num_gpus:
        return
    others = layout.world // layout.dp
    dp = max(1, round(num_gpus / others))
    fits = f"dp = {dp}" if dp * others == num_gpus else f"{dp * others} GPUs with dp = {dp}"
    raise ValueError(
        f"tp x pp x dp x cp = {layout.tp} x {layout.pp} x {layout.dp} x {layout.cp} = {layout.world}, but the run has "
        f"{num_gpus} GPUs: use {layout.world}, or {fits}"
    )


def with_global_batch(layout: Layout, sequences: int) -> Layout:
    """The layout with as many microbatches as this global batch needs. Raises ValueError if it does not divide."""
    a_round = layout.microbatch * layout.dp
    if sequences < 1 or sequences % a_round:
        raise ValueError(
            f"a global batch of {sequences} cannot be cut into microbatches of {layout.microbatch} on {layout.dp} "
            f"data-parallel ranks: use a multiple of {a_round}, such as {max(1, round(sequences / a_round)) * a_round}"
        )
    return replace(layout, num_microbatches=sequences // a_round)


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
