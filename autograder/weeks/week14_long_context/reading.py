"""Three answers from PyTorch's own ring attention; the week's test asks the code itself."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "default": "ALL_GATHER",
    "gradients_sent": 4,
    "order": ["next_buffer", "exchange_buffers", "op", "step"],
}

CHECK = reading_check(
    "week14.reading",
    READING,
    {
        "default": "read _ContextParallelOptions",
        "gradients_sent": "count how often exchange_buffers of dkv_rotater is called, and compare with kv_rotater's",
        "order": "read the loop of _templated_ring_attention from its first line",
    },
    hints=(
        "Open the named file; each question is answered by a few lines of code.",
        "The name of a member of an Enum; a number for 4 ranks; four names.",
        "A gradient that has gone round once more than its block is at home. What comes is awaited before what is here "
        "is sent on, and both before anything is computed.",
    ),
)
