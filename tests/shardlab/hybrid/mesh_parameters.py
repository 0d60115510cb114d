"""The number of parameters on a rank of a mesh for the course's GPT: its stage's layers, split over tp, ep and etp."""

from __future__ import annotations

from dataclasses import dataclass


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
