"""A model and a layout as plain dicts of numbers, as functions take them that know nothing of this package."""

from typing import Any

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer, num_parameters


def model_sizes(model: Transformer) -> dict[str, int]:
    """Its parameters, layers, hidden, heads, kv (width of the keys) and sequence."""
    named = {name: getattr(model, name) for name in ("layers", "hidden", "heads", "sequence")}
    return {"parameters": num_parameters(model), "kv": model.kv_width} | named


def layout_sizes(layout: Layout) -> dict[str, Any]:
    """Its tp, cp, pp, dp, b sequences in a microbatch, m microbatches, chunks of a stage; recompute: all of a layer."""
    sizes = {name: getattr(layout, name) for name in ("tp", "cp", "pp", "dp")}
    batch = {"b": layout.microbatch, "m": layout.num_microbatches, "chunks": layout.virtual}
    return sizes | batch | {"recompute": layout.recompute == "full"}
