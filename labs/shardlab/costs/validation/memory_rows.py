"""How to read a published run's memory number: which framework, which bytes, on which rank, in which unit."""

from dataclasses import dataclass, replace

from shardlab.costs.layout import Layout
from shardlab.costs.memory.frameworks import (
    DEEPSPEED,
    FRAGMENTS,
    MEGATRON,
    NANOTRON,
    TORCHTITAN,
    TORCHTITAN_FUSED,
    Counted,
    Framework,
    outside_bytes,
)
from shardlab.costs.memory.stage import memory_of_stage, peak_memory
from shardlab.costs.models.model import Transformer, attention_matrix_parameters, mlp_matrix_parameters

GB, GIB = 1e9, 2.0**30


@dataclass(frozen=True)
class Reported:
    """How a source counts memory. unit: bytes of its "GB"; first_stage: rank 0's memory, not the fullest rank's."""

    framework: Framework = MEGATRON
    counted: Counted = "allocated"
    unit: float = GB
    first_stage: bool = False


def reported_by(row: dict[str, str]) -> Reported:
    """How a row's source counts; max allocated bytes in GB if it does not say.

    torchtitan prints max reserved in GiB. BLOOM's authors read nvidia-smi, which counts MiB. nanotron's rank 0 writes
    its own max allocated and max reserved, divided by 1024^3, and its figure does not say which one it shows.
    """
    source, note = row.get("source") or "", row.get("note") or ""
    if "torchtitan" in source:
        fused = "compile" in note and "202412" not in (row.get("table") or "")
        return Reported(TORCHTITAN_FUSED if fused else TORCHTITAN, "reserved", GIB)
    if "bigscience" in source or "DeepSpeed" in note:
        return Reported(DEEPSPEED, "nvidia-smi", GIB)
    if "nanotron" in source:
        return Reported(NANOTRON, "allocated", GIB, first_stage=True)
    return Reported()


def first_stage_of_nanotron(model: Transformer, layout: Layout) -> Transformer:
    """A model with as many layers on each stage as nanotron's first stage, which it fills until it exceeds its share.

    Costs are numbers of weights: a layer's and the output layer's, Vh (models/llama.py, get_block_compute_costs).
    """
    layer = attention_matrix_parameters(model) + mlp_matrix_parameters(model, model.ffn)
    shares = model.layers + model.vocab * model.hidden / layer
    first = min(int(shares / layout.pp) + 1, model.layers)
    return replace(model, layers=first * layout.pp) if layout.pp > 1 else model


def reported_bytes(
    model: Transformer, layout: Layout, reported: Reported, gradient_bytes: float, fragments: float = FRAGMENTS
) -> float:
    """The bytes that a source would have reported for this run."""
    kinds = {"gradient_bytes": gradient_bytes, "framework": reported.framework}
    if reported.first_stage:
        held = memory_of_stage(first_stage_of_nanotron(model, layout), layout, 0, **kinds)
    else:
        held = peak_memory(model, layout, **kinds)
    return held.total + outside_bytes(model, layout, held.total, reported.counted, fragments)
