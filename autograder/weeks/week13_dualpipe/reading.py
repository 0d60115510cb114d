"""Three answers from the DualPipe that DeepSeek published."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "main_steps": 6,
    "weights_in": "WeightGradStore",
    "order": [
        "_recv_forward",
        "_recv_backward",
        "_commit_and_wait_comm",
        "_forward_backward_compute_chunk",
        "_send_forward",
        "_send_backward",
    ],
}

CHECK = reading_check(
    "week13.reading",
    READING,
    {
        "main_steps": "step_4 is the number of iterations; half_rank is the distance to the nearer end",
        "weights_in": "look at what _weight_chunk pops from",
        "order": "read the body of _forward_backward_chunk from top to bottom, each name once",
    },
    hints=(
        "Open dualpipe/dualpipe.py; a few lines of `step` or of a method it calls answer each question.",
        "Rank 3 of 8 has half_rank 3, and half_num_chunks is 10.",
        "It receives, waits, computes, then sends.",
    ),
)
