"""Three answers from PyTorch's ring attention; the week's own test checks them against that code."""

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
        "Open the named file; a few lines of code answer each question.",
        "The name of a member of an Enum; a number for 4 ranks; four names.",
        "A gradient needs one more hop than its block to return to its owner. A step first waits for the incoming "
        "block, "
        "then sends the current one, and only then computes.",
    ),
    optional=True,
)
