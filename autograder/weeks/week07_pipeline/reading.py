"""Reading questions about torch's and Megatron's 1F1B."""

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
        "forwards_first": "torch's warm-up has one more forward than the paper's, and its loop begins with a backward",
        "divides": "search for num_microbatches right after the call of the loss function",
        "order": "follow one iteration of the `while True` loop from its top",
    },
    hints=(
        "Open the files named above; one or two lines of code answer each question.",
        "warmup_chunks counts every forward before the first backward; a message batch is named by its `desc`.",
        "min(32, 8 - 2); the function that calls loss_func; messages, backward, messages, forward.",
    ),
)
