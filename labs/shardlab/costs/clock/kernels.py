"""Seconds of one layer's passes on one microbatch and one rank: matmuls, attention, elementwise kernels, recomputation.

A matmul takes its tiles' FLOPs at a share of the peak, or its operands' bytes at memory speed, whichever is longer
(the roofline, Williams et al. 2009). Elementwise kernels are added. A backward is not twice a forward, since it
consists of different kernels, and it may repeat parts of the forward.

Up to Ampere, multiprocessors process tiles in waves, and a partly filled last wave costs as much as a full one
(NVIDIA, Matrix Multiplication Background User's Guide, measured on A100). On the H100, waves explain nothing.
"""

from collections.abc import Iterable
from functools import cache
from math import ceil
from typing import NamedTuple

from shardlab.costs.clock.setup import Software, Speed
from shardlab.costs.layout import Layout
from shardlab.costs.models.flops import attention_core_flops
from shardlab.costs.models.model import Transformer

BYTES = 2  # bf16 and fp16
# Rows and columns of a tile, and its rate relative to the largest: smaller tiles read more operands per FLOP.
TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.9), (128, 64, 0.7), (64, 128, 0.7), (64, 64, 0.5))


class Product(NamedTuple):
    """`groups` matmuls of rows x depth by depth x columns."""

    rows: float
    columns: float
    depth: float
    groups: float = 1

    @property
    def flops(self) -> float:
        return 2 * self.rows * self.columns * self.depth * self.groups


@cache
def busy_flops(product: Product, sms: int) -> float:
    """FLOPs that would take as long in large matmuls: waves of `sms` tiles, or the exact FLOPs if sms is 0."""
    rows, columns, depth, groups = product
    if not sms:
        return product.flops
    return (
        min(
            2 * ceil(ceil(groups) * ceil(rows / high) * ceil(columns / wide) / sms) * sms * high * wide / rate
            for high, wide, rate in TILES
        )
        * depth
    )


# The backward of fused attention takes 3 forwards: it has 5 matmuls where the forward has 2 (arXiv 2307.08691, section
# 3.1.2), at a lower rate; benchmarks/results/h100_kernels.csv has 3.0 to 4.0 on an H100.
ATTENTION_BACKWARD = 3.0


class Passes(NamedTuple):
    """Seconds of a forward and a backward. weights: the part of the backward for weight gradients (W)."""

    forward: float
    backward: float
    weights: float = 0.0

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(*(mine + others for mine, others in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Passes":
        return Passes(*(factor * seconds for seconds in self))

    @property
    def both(self) -> float:
        return self.forward + self.backward


NOTHING = Passes(0.0, 0.0)


class LayerSeconds(NamedTuple):
    """A layer's passes by kind, as selective recomputation distinguishes them."""

    products: Passes
    attention: Passes
    elementwise: Passes
    launch: float
    waits: bool = False

    @property
    def passes(self) -> Passes:
        """Both passes, each at least as long as the host takes to launch its kernels.

        waits: the host reads a result first or waits for each kernel, so launches are added and not hidden.
        """
        work = self.products + self.attention + self.elementwise
        if self.waits:
            return work + Passes(self.launch, self.launch)
        return Passes(max(work.forward, self.launch), max(work.backward, self.launch), work.weights)


def product_seconds(speed: Speed, product: Product, written: float = BYTES) -> float:
    """FLOPs of its tiles or bytes of its operands, whichever takes longer (the roofline), plus writing the result."""
    rows, columns, depth, groups = product
    read = BYTES * groups * depth * (rows + columns)
    work = max(busy_flops(product, speed.sms) / speed.matmul, read / speed.memory)
    return work + written * groups * rows * columns / speed.memory


def linear_seconds(speed: Speed, tokens: float, columns: float, depth: float, groups: float = 1) -> Passes:
    """A linear layer depth -> columns: output, input gradient and weight gradient.

    In fp8 the input is cast in the forward and the output's gradient in the backward.
    """
    forward = product_seconds(speed, Product(tokens, columns, depth, groups))
    to_input = product_seconds(speed, Product(tokens, depth, columns, groups))
    to_weight = product_seconds(speed, Product(columns, depth, tokens, groups), speed.summed)
    cast_in, cast_out = (speed.cast * tokens * width * groups / speed.memory for width in (depth, columns))
    return Passes(forward + cast_in, to_input + to_weight + cast_out, to_weight)


def total(several: Iterable[Passes]) -> Passes:
    return sum(several, start=NOTHING)


def tokens_of(model: Transformer, layout: Layout) -> float:
    """Tokens of a microbatch on a rank, before tensor parallelism splits anything."""
    return layout.microbatch * model.sequence / layout.cp


def attention_seconds(model: Transformer, layout: Layout, speed: Speed) -> Passes:
    """QK^T, softmax, AV."""
    return (_fused_attention if model.flash else _unfused_attention)(model, layout, speed)


def _fused_attention(model: Transformer, layout: Layout, speed: Speed) -> Passes:
    """Half the scores because of the causal mask, none stored in memory, with one exponential each in both passes.

    The backward has 5 matmuls where the forward has 2 (arXiv 2307.08691, section 3.1.2).
    """
    tokens = tokens_of(model, layout)
    products = attention_core_flops(model, causal=True) * tokens / layout.tp / speed.attention
    scores = model.heads / layout.tp * model.sequence * tokens / 2
    softmax = scores / speed.exponentials if speed.exponentials else 0.0
    return Passes(products + softmax, ATTENTION_BACKWARD * (products + softmax))


def _unfused_attention(model: Transformer, layout: Layout, speed: Speed) -> Passes:
    """All scores, stored in memory.

    Bytes per score in addition to the matmuls' own: softmax 4, dropout with its mask 5; in the backward 6 and 5.
    """
    s, head = model.sequence, model.query_width / model.heads
    groups = layout.microbatch * model.heads / layout.tp / layout.cp
    scores = groups * s * s
    wide = product_seconds(speed, Product(s, s, head, groups))
    narrow = product_seconds(speed, Product(s, head, s, groups))
    return Passes(wide + narrow + 9 * scores / speed.memory, wide + 3 * narrow + 11 * scores / speed.memory)


def elementwise_bytes(model: Transformer, layout: Layout, width: float) -> float:
    """Bytes per position in bf16: norms (read and write, 4h each), residuals (6h each, plus a mask with dropout),
    activation and rotation.
    """
    whole = (20 + (2 if model.bias else 0)) * model.hidden / (layout.tp if layout.sequence_parallel else 1)
    rotated = 0 if model.positions else 4 * (model.query_width + model.kv_width)
    split = (6 if model.gated else 4) * width + rotated
    return whole + split / layout.tp


def elementwise_seconds(model: Transformer, layout: Layout, speed: Speed, width: float) -> Passes:
    """All elementwise kernels of a layer; the backward moves twice as many bytes."""
    forward = speed.eager * tokens_of(model, layout) * elementwise_bytes(model, layout, width) / speed.memory
    return Passes(forward, 2 * forward)


def projection_seconds(model: Transformer, layout: Layout, speed: Speed) -> Passes:
    """The linear layers around attention; for latent attention see arXiv 2405.04434, section 2.1."""
    tokens, h, t = tokens_of(model, layout), model.hidden, layout.tp
    out = linear_seconds(speed, tokens, h, model.value_width / t)
    part = model.latent
    if part is None:
        return out + linear_seconds(speed, tokens, (model.query_width + 2 * model.kv_width) / t, h)
    query = [(model.query_width / t, h)]
    if part.q_rank:
        query = [(part.q_rank, h), (model.query_width / t, part.q_rank)]
    key_value = [(part.kv_rank + part.rope, h), (model.heads * (part.nope + part.value) / t, part.kv_rank)]
    return out + total(linear_seconds(speed, tokens, *shape) for shape in query + key_value)


def mlp_seconds(model: Transformer, speed: Speed, tokens: float, width: float, groups: float = 1) -> Passes:
    """Two linear layers, the first twice as wide if gated; for experts, `groups` of them at once."""
    first = linear_seconds(speed, tokens, (2 if model.gated else 1) * width, model.hidden, groups)
    return first + linear_seconds(speed, tokens, model.hidden, width, groups)


def dense_layer_seconds(model: Transformer, layout: Layout, speed: Speed) -> LayerSeconds:
    """A dense layer."""
    mlp = mlp_seconds(model, speed, tokens_of(model, layout), model.ffn / layout.tp)
    return LayerSeconds(
        products=projection_seconds(model, layout, speed) + mlp,
        attention=attention_seconds(model, layout, speed),
        elementwise=elementwise_seconds(model, layout, speed, model.ffn),
        launch=speed.launch,
        waits=speed.launches_block,
    )


def moe_layer_seconds(model: Transformer, layout: Layout, speed: Speed, *, imbalance: float = 1.0) -> LayerSeconds:
    """A layer of experts: each local expert has its own matmuls over the rows sent to it.

    Tokens are permuted and returned: 4 passes over k rows of h. Twice as many kernels as in a dense layer are launched.
    The host waits for the number of rows of each expert unless it is fixed.
    """
    tokens = tokens_of(model, layout)
    rows = tokens / layout.tp * model.active_experts * (imbalance if layout.ep > 1 else 1.0)
    local = model.experts / layout.ep
    in_groups = speed._replace(matmul=speed.matmul * speed.grouped)
    routed = mlp_seconds(model, in_groups, rows / local, model.expert_ffn, local)
    moved = 4 * 2 * 2 * model.hidden * rows / speed.memory
    shared = model.expert_ffn * model.shared_experts / layout.tp
    beside = mlp_seconds(model, speed, tokens, shared) if shared else NOTHING
    around = elementwise_seconds(model, layout, speed, model.active_experts * model.expert_ffn)
    return LayerSeconds(
        products=projection_seconds(model, layout, speed) + routed + beside,
        attention=attention_seconds(model, layout, speed),
        elementwise=around + Passes(moved, moved),
        launch=2 * speed.launch,
        waits=speed.waits or speed.launches_block,
    )


def output_seconds(model: Transformer, layout: Layout, speed: Speed) -> Passes:
    """The output layer and the loss.

    With separate kernels, logits are read and written in fp32 about 4 times, and twice that in the backward. In one
    kernel they are read twice in 16 bits and their gradient is written once.
    """
    tokens = tokens_of(model, layout)
    vocab = model.vocab / layout.tp
    loss = (2 if speed.fused_loss else 16) * tokens * vocab / speed.memory
    return linear_seconds(speed, tokens, vocab, model.hidden) + Passes(loss, 2 * loss)


def with_recomputation(layer: LayerSeconds, layout: Layout, software: Software, norms: float) -> Passes:
    """A layer's passes including recomputation in the backward; norms: seconds of `norms_seconds`, repeated by "norms".

    Full recomputation repeats the forward, for a share of the layers if k of n are given. Selective recomputation
    repeats attention (arXiv 2205.05198, section 5), or every other matmul and elementwise operations (torchtitan).
    """
    forward, backward, weights = layer.passes
    selective = layer.attention.forward
    if software.half_products:
        selective = layer.products.forward / 2 + layer.elementwise.forward
    again = {"none": 0.0, "selective": selective, "norms": norms, "full": layout.again * forward}[layout.recompute]
    return Passes(forward, backward + again, weights)


def norms_seconds(model: Transformer, layout: Layout, speed: Speed, width: float) -> float:
    """Two norms with 4h bytes each per position, the activation of `width`, and latent attention's up-projections.

    DeepSeek-V3 repeats these (arXiv 2412.19437, section 3.2.3).
    """
    tokens, t = tokens_of(model, layout), layout.tp
    norms = 8 * model.hidden / (t if layout.sequence_parallel else 1)
    activation = (6 if model.gated else 4) * width / t
    seconds = speed.eager * tokens * (norms + activation) / speed.memory
    if (part := model.latent) is None:
        return seconds
    up = linear_seconds(speed, tokens, model.heads * (part.nope + part.value) / t, part.kv_rank).forward
    query = linear_seconds(speed, tokens, model.query_width / t, part.q_rank).forward if part.q_rank else 0.0
    return seconds + up + query
