"""Three answers from the code of PyTorch and Megatron; the week's own test checks them against that code."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "kept": "input_split_sizes",
    "scatters": 4,
    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
}

CHECK = reading_check(
    "week12.reading",
    READING,
    {
        "kept": "read the assignments to ctx in _AlltoAllSingle.forward, and see which list the backward sends by",
        "scatters": "read the branch for gloo in _AlltoAll.forward: what does its loop iterate over?",
        "order": "read custom_forward inside MoELayer.forward",
    },
    hints=(
        "Open the named files; a few lines of code answer each question.",
        "The name of an argument; a number for 4 ranks; four names.",
        "The backward sends as much as the forward received. On gloo, every rank is the source of one scatter. The "
        "experts run between dispatch and combine.",
    ),
)
