"""Three answers from Megatron-Core; the week's test checks them against the code itself."""

from __future__ import annotations

from autograder.checks.reading import reading_check

READING = {
    "gathers": 2,
    "not_reduced": "_split_along_first_dim",
    "order": ["_set_all_rng_states", "detach_variable", "run_function", "backward"],
}

CHECK = reading_check(
    "week06.reading",
    READING,
    {
        "gathers": "count dist_all_gather_func in the forward and in the backward of the linear layer's Function",
        "not_reduced": "read the else branch in the backward of _GatherFromSequenceParallelRegion",
        "order": "read CheckpointFunction.backward from _fork_rng on",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "A number; the name of a function that begins with an underscore; four names.",
        "layers.py: the input is saved for the backward as it came, a part. mappings.py: with "
        "tensor_parallel_output_grad=False a rank keeps its own rows.",
    ),
)
