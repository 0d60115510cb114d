"""Three answers from torch's and Megatron's 1F1B."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "forwards_first": 6,
    "divides": "forward_step_calc_loss",
    "order": ["fwd_send_bwd_recv", "backward_one_chunk", "bwd_send_fwd_recv", "forward_one_chunk"],
}

CHECK = reading_check(
    "week07.reading",
    READING,
    {
        "forwards_first": "torch's warm-up is a forward longer than the paper's, and its loop begins with a backward",
        "divides": "search for num_microbatches where the loss function has just been called",
        "order": "follow one turn of the `while True` loop from its top",
    },
    hints=(
        "Open the named files; each question is answered by a line or two of code.",
        "warmup_chunks counts every forward before the first backward; a message batch is named by its `desc`.",
        "min(32, 8 - 2); the function that calls loss_func; messages, backward, messages, forward.",
    ),
)
