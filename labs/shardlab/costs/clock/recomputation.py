"""Seconds that a backward spends repeating parts of the forward."""

from shardlab.costs.clock.kernels import LayerSeconds, Passes, linear_seconds, tokens_of
from shardlab.costs.clock.software import Software
from shardlab.costs.clock.speed import Speed
from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer


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
