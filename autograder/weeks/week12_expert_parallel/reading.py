"""Three answers from PyTorch's and Megatron's own code; the week's test asks the code itself."""

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
        "kept": "read the assignments to ctx in _AlltoAllSingle.forward, and which list the backward sends by",
        "scatters": "read the branch for gloo in _AlltoAll.forward: over what does its loop run?",
        "order": "read custom_forward inside MoELayer.forward",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "The name of an argument; a number for 4 ranks; four names.",
        "What was received is what the backward sends. On gloo every rank is the source of one scatter. Between "
        "dispatch and combine lies the work.",
    ),
)
