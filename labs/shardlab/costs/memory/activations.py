"""Every tensor that a layer keeps for its backward, to the byte: the terms behind the formulas of arXiv 2205.05198.

Symbols: s sequence, b microbatch, h hidden, a heads, f width of the MLP (4h in GPT), t tensor-parallel size. In GPT
with two-byte numbers the sum is sbh(34 + 5as/h) plus small terms that the paper omits: 8sb for the norms' statistics
and, if attention is one kernel, 4abs for its sums of exponentials.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer

RECOMPUTED = {"none": (), "selective": ("attention.core",), "full": ("",)}  # paths of modules in a block


@dataclass(frozen=True)
class Saved:
    """A saved tensor: its bytes on one rank and the module that creates it ("" is the layer)."""

    name: str
    inside: str
    num_bytes: float


def layer_activation_tensors(
    model: Transformer,
    layout: Layout,
    *,
    dropout: bool,
    recomputed: Collection[str] | None = None,
    bytes_each: int = 2,
    statistics_bytes: int | None = None,
) -> list[Saved]:
    """The tensors that one dense layer keeps for one microbatch on one rank, with LayerNorm and GELU or SwiGLU.

    dropout: one byte per number passed to a dropout; with a fused kernel (model.flash) there is none on scores.
    recomputed: paths of modules that keep only their inputs; None is layout.recompute: "attention.core" is selective,
    "" is full; "attention.expanded" is what latent attention computes from its latents. statistics_bytes: for a norm's
    mean and scale; torch's CPU kernels keep them in the dtype of their
    input, its CUDA kernels in 4 bytes.
    """
    recomputed = RECOMPUTED[layout.recompute] if recomputed is None else recomputed
    statistics_bytes = bytes_each if statistics_bytes is None else statistics_bytes
    positions, t = layout.microbatch * model.sequence / layout.cp, layout.tp
    outside = positions / (
        t if layout.sequence_parallel else 1
    )  # for norms, dropouts and inputs of column-parallel layers
    block = bytes_each * outside * model.hidden

    kept = [Saved("layer's input", "input", block)]
    for number, part in ((1, "attention"), (2, "MLP")):
        if number == 2:
            kept.append(Saved("second norm's input", "", block))
        kept.append(Saved(f"norm {number}: mean and scale", f"norm_{number}", 2 * statistics_bytes * outside))
        kept.append(Saved(f"{part}'s input", "", block))
        attention = _latent_attention if model.latent else _attention
        kept += (attention if number == 1 else _mlp)(model, t, positions, dropout, bytes_each)
        if dropout:
            kept.append(Saved(f"{part}'s dropout: mask", f"dropout_{number}", outside * model.hidden))
    if model.latent and "attention.expanded" in recomputed:
        kept.append(Saved("rotary key of all heads", "attention", bytes_each * positions * model.latent.rope))
    return [one for one in kept if not any(_lies_in(one.inside, path) for path in recomputed)]


def latent_attention_bytes(model: Transformer, *, expanded_again: bool = False, bytes_each: int = 2) -> float:
    """Bytes per position that latent attention keeps for its backward, with its input and without the layer's norm.

    2h + 4(q + c) + 8 + 4a(n + r) + 4av + 4a in 16 bits, for latents of q and c numbers and heads of n + r and v. With
    `expanded_again` the backward repeats norms and up-projections (DeepSeek-V3, arXiv 2412.19437, section 3.2.3):
    2h + 2(q + c + r) + 2av + 4a. Raises ValueError for a model without latents.
    """
    if model.latent is None:
        raise ValueError(f"{model.name} has no latent attention: use layer_activation_tensors")
    again = ("attention.expanded",) if expanded_again else ()
    kept = layer_activation_tensors(
        replace(model, sequence=1), Layout(), dropout=False, recomputed=again, bytes_each=bytes_each
    )
    return sum(one.num_bytes for one in kept if _lies_in(one.inside, "attention")) + bytes_each * model.hidden


def cache_bytes(model: Transformer, *, bytes_each: int = 2) -> int:
    """Bytes per position and layer that inference keeps: keys and values, or with latent attention the latent and one
    rotary key for all heads (DeepSeek-V2, arXiv 2405.04434, section 2.1).
    """
    if part := model.latent:
        return bytes_each * (part.kv_rank + part.rope)
    return bytes_each * 2 * model.kv_width


def layer_activation_bytes_exactly(
    model: Transformer, layout: Layout, *, dropout: bool, recomputed: Collection[str] | None = None, bytes_each: int = 2
) -> float:
    """Total bytes of these tensors: sbh(34 + 5as/h), split or recomputed as in the layout, plus the small terms."""
    kept = layer_activation_tensors(model, layout, dropout=dropout, recomputed=recomputed, bytes_each=bytes_each)
    return sum(one.num_bytes for one in kept)


def modern_layer_tensors(model: Transformer, layout: Layout) -> list[Saved]:
    """The tensors that one layer as in Llama keeps (`model.ModernBlock`), with numbers of two bytes.

    RMSNorm saves its input and one float32 per position; the matrices that read its output share one tensor. One kernel
    saves queries, keys and values of the key-value heads, its output, and a float32 per query head. SwiGLU as separate
    operators saves the gate, its SiLU, the passing half and their product. Not counted: the cosines and sines of rotary
    positions, which all layers share.
    """
    model = replace(model, gated=True, flash=True)
    return layer_activation_tensors(model, layout, dropout=False, statistics_bytes=2)  # 2 times 2: one float32


def _attention(model: Transformer, t: int, positions: float, dropout: bool, bytes_each: int) -> list[Saved]:
    """Each rank has a/t heads and the key-value heads that they use, at least one."""
    queries = bytes_each * positions * model.query_width / t
    one_head = bytes_each * positions * model.kv_width / model.kv_heads
    keys = one_head * max(1, model.kv_heads / t)
    scores = positions * model.heads / t * model.sequence
    core = [Saved("sums of exponentials", "attention.core", 4 * positions * model.heads / t)]
    if not model.flash:
        core = [Saved("softmax", "attention.core", bytes_each * scores)]
        if dropout:
            core.append(Saved("scores' dropout: mask", "attention.core", scores))
            core.append(Saved("scores after dropout", "attention.core", bytes_each * scores))
    return [
        Saved("queries", "attention", queries),
        Saved("keys", "attention", keys),
        Saved("values", "attention", keys),
        *core,
        Saved("projection's input", "attention", bytes_each * positions * model.value_width / t),
    ]


def _latent_attention(model: Transformer, t: int, positions: float, dropout: bool, bytes_each: int) -> list[Saved]:
    """The latents are whole on each rank; what is computed from them is split by heads.

    Each latent has an RMSNorm, which keeps its input and a scale in 4 bytes; the up-projection keeps the output.
    """
    part = model.latent
    assert part is not None
    kept = []
    for name, rank in (("queries'", part.q_rank), ("keys' and values'", part.kv_rank)):
        if rank:
            kept.append(Saved(f"{name} latent", "attention", bytes_each * positions * rank))
            kept.append(Saved(f"{name} latent: scale", "attention.expanded", 4 * positions))
            kept.append(Saved(f"{name} latent after its norm", "attention.expanded", bytes_each * positions * rank))
    several = replace(model, kv_heads=model.heads)  # each head has its own keys, from the shared latent
    rest = _attention(several, t, positions, dropout, bytes_each)
    values = bytes_each * positions * model.value_width / t
    for one in rest:
        inside = "attention.expanded" if one.name in ("queries", "keys", "values") else one.inside
        kept.append(Saved(one.name, inside, values if one.name == "values" else one.num_bytes))
    return kept


def _mlp(model: Transformer, t: int, positions: float, dropout: bool, bytes_each: int) -> list[Saved]:
    """GELU keeps its input and output. A gated MLP keeps the gate, the gate after SiLU, the passing half and the
    product.
    """
    width = bytes_each * positions * model.ffn / t
    if not model.gated:
        return [Saved("before GELU", "", width), Saved("after GELU", "", width)]
    return [
        Saved("passing", "", width),
        Saved("gate", "", width),
        Saved("gate after SiLU", "", width),
        Saved("their product", "", width),
    ]


def _lies_in(inside: str, path: str) -> bool:
    """Whether a tensor is created inside a module; the layer's input is created before it."""
    if inside == "input":
        return False
    return path in ("", inside) or inside.startswith(f"{path}.")
