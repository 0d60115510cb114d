"""Three answers from real code."""

from autograder.checks.reading import reading_check

READING = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}

CHECK = reading_check(
    "week01.reading",
    READING,
    {
        "messages": "every rank but rank 0 sends once on the way up, and is sent to once on the way down",
        "backward_of_copy": "look at the backward of _CopyToModelParallelRegion",
        "order": "forward first, then what its backward calls",
    },
    hints=(
        "Open the named files; each question is answered by one line of code.",
        "A tree of N ranks has N-1 edges.",
        "The backward of a copy adds gradients up; the backward of an all-gather is a reduce-scatter.",
    ),
)
