"""Three answers from real code."""

from autograder.checks.reading import reading_check

READING = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}

CHECK = reading_check(
    "week01.reading",
    READING,
    {
        "messages": "every rank except rank 0 sends one message on the way up and receives one on the way down",
        "backward_of_copy": "look at the backward of _CopyToModelParallelRegion",
        "order": "forward first, then what its backward calls",
    },
    hints=(
        "Open the named files; each question is answered by one line of code.",
        "A tree of N ranks has N-1 edges.",
        "The backward of a copy sums gradients; the backward of an all-gather is a reduce-scatter.",
    ),
)
