"""The layouts whose runs can be recorded: plain sizes, without torch or Megatron."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class TensorParallel:
    """An embedding, `blocks` MLPs, a head and its loss, all split over `tp` ranks, forward and backward.

    Activations are [s, b, h]; an MLP is h → f → h.
    """

    world: int
    tp: int
    blocks: int
    s: int
    b: int
    h: int
    f: int
    vocabulary: int


@dataclass(frozen=True)
class SequenceParallel:
    """One MLP with sequence parallelism, then a gather of its output, forward and backward.

    whole_gradient: every rank computes the same gradient of the gathered output (`tensor_parallel_output_grad=False`).
    """

    world: int
    tp: int
    s: int
    b: int
    h: int
    f: int
    whole_gradient: bool


@dataclass(frozen=True)
class Pipeline:
    """One step over `pp` ranks: 1F1B with one chunk per rank, else the interleaved schedule."""

    world: int
    tp: int
    pp: int
    chunks: int
    microbatches: int
    s: int
    b: int
    h: int
    sequence_parallel: bool = False
    overlap: bool = False


@dataclass(frozen=True)
class DistributedOptimizer:
    """Two steps of linear layers of these widths, without biases, with gradient clipping.

    bucket: parameters after which a bucket is full; used only with overlap.
    """

    world: int
    widths: tuple[int, ...]
    bucket: int
    overlap: bool


@dataclass(frozen=True)
class Experts:
    """A forward and a backward of one MoE layer; `routes[rank][token]` are the experts of a token."""

    world: int
    experts: int
    h: int
    routes: tuple[tuple[tuple[int, ...], ...], ...]


Layout: TypeAlias = TensorParallel | SequenceParallel | Pipeline | DistributedOptimizer | Experts
KINDS = {kind.__name__: kind for kind in (TensorParallel, SequenceParallel, Pipeline, DistributedOptimizer, Experts)}


def encode(layout: Layout) -> dict[str, Any]:
    """A layout as plain data for JSON."""
    return {"kind": type(layout).__name__, **asdict(layout)}


def decode(data: dict[str, Any]) -> Layout:
    """The inverse of `encode`."""
    sizes = {name: _tuples(value) for name, value in data.items() if name != "kind"}
    return KINDS[data["kind"]](**sizes)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
