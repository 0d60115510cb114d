"""Three answers from PyTorch's FSDP2."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "ranks_of_the_backward": 8,
    "records": "_record_post_forward",
    "order": ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"],
}

CHECK = reading_check(
    "week04.reading",
    READING,
    {
        "ranks_of_the_backward": "fully_shard's docstring says what an int means: how many ranks share the weights",
        "records": "post_forward calls it, unless the forward is a recomputation",
        "order": "read post_backward from top to bottom: three record_function blocks with one of the calls in each",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "An int gives the size of the group over which the weights are split after the forward.",
        "FSDPParamGroup: post_forward for the name, post_backward for the order.",
    ),
)
