"""The exact bytes that a rank of a mesh sends in a step of `hybrid.MeshTrainer`, group by group, and its parameters.

Symbols: t, c, d, e the sizes of tp, cp, dp and ep, m microbatches of b sequences of s tokens, h hidden. Bytes are those
of a ring (`traffic`). Experts are counted with even loads. HSDP's groups belong to no axis and are not counted here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from shardlab.costs.context import ContextWay, context_bytes
from shardlab.costs.experts import expert_tensor_bytes, layer_exchange_bytes, tokens_first
from shardlab.costs.memory.states import StateBytes
from shardlab.costs.traffic import (
    all_to_all_bytes,
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_reduce_scatter_bytes,
)


@dataclass(frozen=True)
class MeshModel:
    """Sizes of a GPT as trained by `hybrid`. experts = 0 is a dense model.

    width: of one expert. shared: experts that every token visits. learned_positions: False for rotary positions.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    sequence: int
    vocabulary: int
    gated: bool = False
    tied: bool = True
    learned_positions: bool = True
    experts: int = 0
    choices: int = 0
    width: int = 0
    shared: int = 0
    has_own_losses: bool = False

    @property
    def head_width(self) -> int:
        return self.hidden // self.heads

    def kv_width(self, tp: int) -> int:
        """The width of the keys on one tp rank: at least one head, which neighbors may share."""
        return max(1, self.kv_heads // tp) * self.head_width


@dataclass(frozen=True)
class StageOfMesh:
    """The layers of a stage, and whether it has the embedding or the head."""

    layers: int
    is_first: bool
    is_last: bool


def dense_parameters(model: MeshModel, stage: StageOfMesh, *, tp: int, splits_vocabulary: bool) -> int:
    """Parameters of a rank other than experts. A tied head in the stage of the embedding is not counted again."""
    rows = -(-model.vocabulary // tp) if splits_vocabulary else model.vocabulary
    total = stage.layers * dense_layer_parameters(model, tp=tp)
    if stage.is_first:
        total += rows * model.hidden + (model.sequence * model.hidden if model.learned_positions else 0)
    if stage.is_last:
        total += 2 * model.hidden + (0 if model.tied and stage.is_first else rows * model.hidden)
    return total


def dense_layer_parameters(model: MeshModel, *, tp: int) -> int:
    """Parameters of one layer on one tp rank: norms, attention, and an MLP, or router and shared experts."""
    hidden = model.hidden
    columns = hidden // tp + 2 * model.kv_width(tp)
    attention = columns * (hidden + 1) + hidden // tp * hidden + hidden
    norms = 4 * hidden
    if model.experts:
        shared = (3 if model.gated else 2) * hidden * model.shared * model.width
        return norms + attention + model.experts * hidden + shared
    wide = (2 if model.gated else 1) * 4 * hidden // tp
    return norms + attention + wide * (hidden + 1) + 4 * hidden // tp * hidden + hidden


def expert_parameters_of_rank(model: MeshModel, stage: StageOfMesh, *, ep: int, etp: int) -> int:
    """Parameters of the routed experts on one rank."""
    each = (3 if model.gated else 2) * model.hidden * model.width
    return stage.layers * model.experts // ep * each // etp


def partial_parameters(model: MeshModel, stage: StageOfMesh, *, tp: int, sequence_parallel: bool) -> tuple[int, int]:
    """The number of gradients that tp ranks must still sum, and how many numbers this sends: shared key-value heads of
    all ranks; norms, row biases and positions under sequence parallelism; routers and shared experts.
    """
    hidden, whole, sent = model.hidden, 0, 0
    if tp == 1:
        return 0, 0
    if sequence_parallel:
        whole += stage.layers * (4 * hidden + hidden + (0 if model.experts else hidden))
        whole += model.sequence * hidden if stage.is_first and model.learned_positions else 0
        whole += 2 * hidden if stage.is_last else 0
    if model.experts:
        shared = (3 if model.gated else 2) * hidden * model.shared * model.width
        whole += stage.layers * (model.experts * hidden + shared)
    if tp > model.kv_heads:
        own = stage.layers * 2 * model.head_width * (hidden + 1)
        sent = own * model.kv_heads
        return whole + own, whole + sent
    return whole, whole


Axes = tuple[str, ...]
Sent = dict[Axes, float]
STAGE: Axes = ("tp", "cp", "dp")
WORLD: Axes = ("tp", "cp", "dp", "pp")
COUNT = 8  # bytes of an integer in a message


@dataclass(frozen=True)
class MeshStep:
    """A step: sizes of the axes and options. bytes_each: of activations and weights. main_bytes: of gradient sums,
    masters and states. recompute: "stage" keeps only a stage's input.
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    etp: int = 1
    microbatch: int = 1
    num_microbatches: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    splits_vocabulary: bool = False
    context: ContextWay = "ring"
    recompute: str = "none"
    moves_biases: bool = False
    bytes_each: float = 4
    main_bytes: float = 4

    @property
    def tokens(self) -> float:
        """Tokens of a microbatch on one cp rank, per token of sequence length: multiply by the sequence length."""
        return self.microbatch / self.cp

    @property
    def repeats(self) -> int:
        """How often a layer's forward is repeated."""
        return 1 if self.recompute in ("full", "stage") else 0

    @property
    def edp(self) -> int:
        return self.tp * self.cp * self.dp // (self.ep * self.etp)


def step_bytes(
    model: MeshModel,
    step: MeshStep,
    stages: Sequence[StageOfMesh],
    *,
    messages: int,
    dense: Sequence[int],
    experts: Sequence[int],
    tied: int = 0,
) -> Sent:
    """Bytes sent by a rank with these stages, by axes.

    messages: activations and gradients of one microbatch sent to another stage. dense, experts: elements of each vector
    that is sent separately, or of the whole stage without ZeRO. tied: elements of the embedding that another rank's
    head shares.
    """
    sent: defaultdict[Axes, float] = defaultdict(float)
    for stage in stages:
        sent["tp",] += tp_bytes(model, step, stage)
        sent["cp",] += stage.layers * step.num_microbatches * cp_layer_bytes(model, step)
        if model.experts:
            for axes, number in expert_bytes(model, step, stage).items():
                sent[axes] += number
    sent["pp",] += messages * step.num_microbatches * boundary_bytes(model, step) + tied * step.main_bytes
    sent["dp", "cp"] += data_bytes(step, step.dp * step.cp, dense)
    sent["edp",] += data_bytes(step, step.edp, experts)
    facts = COUNT * (2 + 2 * (2 + step.dp)) + 2 * 8  # the batch check; norm and loss
    sent[WORLD] += ring_all_reduce_bytes(step.tp * step.cp * step.dp * step.pp, facts)
    return {axes: number for axes, number in sent.items() if number}


def tp_bytes(model: MeshModel, step: MeshStep, stage: StageOfMesh) -> float:
    """An all-reduce after each pair of matrices, in the forward and in the backward (arXiv 1909.08053). With sequence
    parallelism, an all-gather and a reduce-scatter, and one more all-gather in the backward (arXiv 2205.05198).
    """
    payload = step.bytes_each * step.tokens * model.sequence * model.hidden
    once, twice = ring_all_gather_bytes(step.tp, payload), ring_all_reduce_bytes(step.tp, payload)
    pairs, apart = (1, 0 if step.sequence_parallel else once) if model.experts else (2, 0)  # split tokens, for experts
    forward, backward = (2 * once, 3 * once) if step.sequence_parallel else (twice, twice)
    per_layer = (1 + step.repeats) * (pairs * forward + apart) + pairs * backward + apart
    around = 0.0
    if step.splits_vocabulary and stage.is_first:
        around += once if step.sequence_parallel else twice * (1 + (step.recompute == "stage"))
        around += once * (1 + (step.recompute == "stage")) if step.sequence_parallel else 0
    if step.splits_vocabulary and stage.is_last:
        again = 2 if step.recompute == "stage" else 1
        around += once * (again + 2) if step.sequence_parallel else twice
        precise = max(4, step.bytes_each)
        around += again * ring_all_reduce_bytes(step.tp, 3 * precise * step.tokens * model.sequence)
    _, partial = partial_parameters(model, stage, tp=step.tp, sequence_parallel=step.sequence_parallel)
    in_passes = step.num_microbatches * (stage.layers * per_layer + around)
    return in_passes + ring_all_reduce_bytes(step.tp, step.main_bytes * partial)


def cp_layer_bytes(model: MeshModel, step: MeshStep) -> float:
    """`context.context_bytes` for one tp rank's heads. Recomputing attention sends the forward's bytes again."""
    kv_width = model.kv_width(step.tp)
    both = context_bytes(
        step.context,
        step.cp,
        step.tokens * model.sequence,
        model.hidden / step.tp,
        kv_width,
        kv_heads=kv_width // model.head_width,
        bytes_each=step.bytes_each,
        sum_bytes=max(4, step.bytes_each),
    )
    return both.both + both.forward * (step.repeats or step.recompute == "selective")


def expert_bytes(model: MeshModel, step: MeshStep, stage: StageOfMesh) -> Sent:
    """Two all-to-alls each way, the counts before them, and the sums of loads for losses and biases."""
    tokens, k, e, etp = step.tokens * model.sequence / step.tp, model.choices, step.ep, step.etp
    first = etp > 1 and tokens_first(k, e)
    here = tokens * (etp if first else 1)
    rows = layer_exchange_bytes(here, k, model.hidden, e, dispatch_bytes=step.bytes_each, combine_bytes=step.bytes_each)
    told = all_to_all_bytes(e, COUNT * (e + model.experts))  # to each rank its counts, after a flag
    shared = decided = weighed = counts = 0.0
    if first:
        shared = expert_tensor_bytes(tokens, model.hidden, etp, step.bytes_each)
        decided = ring_all_gather_bytes(etp, etp * tokens * k * 4)
        weighed = ring_all_gather_bytes(etp, etp * tokens * k * max(4, step.bytes_each))
        counts = ring_all_gather_bytes(etp, etp * COUNT * 2)
    elif etp > 1:
        shared = 2 * ring_all_gather_bytes(etp, etp * tokens * k * model.hidden * step.bytes_each)
        counts = ring_all_gather_bytes(etp, etp * COUNT * (1 + model.experts))
    times, forwards = stage.layers * step.num_microbatches, 1 + step.repeats
    load = ring_all_reduce_bytes(step.tp * step.cp * step.dp, COUNT * model.experts)
    return {
        ("ep",): times * (forwards * (rows + told) + rows),
        ("etp",): times * (forwards * (shared + decided + weighed + counts) + shared + weighed),
        STAGE: load * (times * forwards * model.has_own_losses + stage.layers * step.moves_biases),
    }


def boundary_bytes(model: MeshModel, step: MeshStep) -> float:
    """An activation or its gradient between two stages, or 1/t of it if tp ranks split the sequence."""
    whole = step.bytes_each * step.tokens * model.sequence * model.hidden
    return whole / step.tp if step.sequence_parallel else whole


def data_bytes(step: MeshStep, num_ranks: int, vectors: Sequence[int]) -> float:
    """Bytes to sum gradients and gather weights over N ranks (arXiv 1910.02054, section 7), with each vector padded.

    ZeRO-2 and 3 sum in every microbatch, in the weights' dtype. ZeRO-3 gathers before the forward and the backward, and
    once more if a stage is recomputed.
    """
    if step.zero == 0:
        return ring_all_reduce_bytes(num_ranks, step.main_bytes * sum(vectors))
    padded = sum(-(-numbers // num_ranks) * num_ranks for numbers in vectors)
    m = step.num_microbatches
    sums, each = (1, step.main_bytes) if step.zero == 1 else (m, step.bytes_each)
    gathers = m * (3 if step.recompute == "stage" else 2) if step.zero == 3 else 1
    reduced = sums * ring_reduce_scatter_bytes(num_ranks, each * padded)
    return reduced + gathers * ring_all_gather_bytes(num_ranks, step.bytes_each * padded)


def mesh_state_bytes(step: MeshStep, num_ranks: int, vectors: Sequence[int], *, states: int = 2) -> StateBytes:
    """Bytes on a rank: weights, gradients at the end of the backward, and masters with `states` numbers each (Adam: 2).

    Without a lower compute dtype, weights are their own masters, except in ZeRO-3, which keeps only the slices.
    """
    whole = sum(vectors)
    padded = [-(-numbers // num_ranks) * num_ranks for numbers in vectors] if step.zero else list(vectors)
    held = sum(padded) if step.zero else whole
    part = held / (num_ranks if step.zero else 1)
    has_masters = step.bytes_each != step.main_bytes
    return StateBytes(
        parameters=step.bytes_each * (part if step.zero == 3 else held),
        gradients=step.main_bytes * (part if step.zero >= 2 else whole),
        optimizer=step.main_bytes * part * (states + has_masters),
    )
