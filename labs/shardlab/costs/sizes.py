"""A model and a layout as plain dicts of numbers, for functions that do not use this package's classes."""

from typing import Any

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer, num_parameters


def model_sizes(model: Transformer) -> dict[str, int]:
    """Its parameters, layers, hidden, heads, kv (width of the keys) and sequence."""
    named = {name: getattr(model, name) for name in ("layers", "hidden", "heads", "sequence")}
    return {"parameters": num_parameters(model), "kv": model.kv_width} | named


def layout_sizes(layout: Layout) -> dict[str, Any]:
    """tp, cp, pp, dp, b sequences per microbatch, m microbatches, chunks per stage; recompute: full layer or not."""
    sizes = {name: getattr(layout, name) for name in ("tp", "cp", "pp", "dp")}
    batch = {"b": layout.microbatch, "m": layout.num_microbatches, "chunks": layout.virtual}
    return sizes | batch | {"recompute": layout.recompute == "full"}
