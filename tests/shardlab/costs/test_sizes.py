"""A model and a layout as plain dicts: what they are made of, for students' own planners."""

from shardlab.costs import Layout, find_model, num_parameters
from shardlab.costs.sizes import layout_sizes, model_sizes


def test_a_model_of_grouped_keys():
    model = find_model("llama3-70b")
    assert model_sizes(model) == {
        "parameters": num_parameters(model),
        "kv": 1024,
        "layers": 80,
        "hidden": 8192,
        "heads": 64,
        "sequence": 8192,
    }


def test_a_layout():
    layout = Layout(tp=2, pp=4, dp=8, cp=2, microbatch=3, num_microbatches=4, virtual=2, recompute="full")
    assert layout_sizes(layout) == {
        "tp": 2, "cp": 2, "pp": 4, "dp": 8, "b": 3, "m": 4, "chunks": 2, "recompute": True,
    }  # fmt: skip
    assert layout_sizes(Layout(recompute="selective"))["recompute"] is False
