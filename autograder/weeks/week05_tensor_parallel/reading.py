"""Three answers from Megatron-Core's tensor_parallel; the week's test checks them against the code itself."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "f": "_CopyToModelParallelRegion",
    "loss": 3,
    "order": ["all_reduce", "grad_weight", "wait"],
}

CHECK = reading_check(
    "week05.reading",
    READING,
    {
        "f": "which class of mappings.py returns its input in `forward` and reduces in `backward`",
        "loss": "count the calls of all_reduce in _VocabParallelCrossEntropy.forward",
        "order": "read the backward of LinearWithGradAccumulationAndAsyncCommunication where `allreduce_dgrad` is true",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "A class whose name begins with an underscore; a number; a list of three names.",
        "The input's gradient is sent first, so that the message overlaps with computing the weight's gradient.",
    ),
)
