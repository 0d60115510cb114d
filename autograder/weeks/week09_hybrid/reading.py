"""Three answers from real code; the week's own test checks them against that code."""

from autograder.checks.reading import reading_check

READING = {"default_order": "tp-cp-ep-dp-pp", "counts": 0, "order": ["tp", "cp", "dp", "pp"]}

CHECK = reading_check(
    "week09.reading",
    READING,
    {
        "default_order": "look at the default of `order` in initialize_model_parallel",
        "counts": "read param_is_not_tensor_parallel_duplicate: for which tensor-parallel rank does it return True",
        "order": "read create_process_groups, and then the constant that it loops over",
    },
    hints=(
        "Open the named files; a few lines of code answer each question.",
        "A string with four hyphens; a number; a list of four names.",
        "DENSE in labs/shardlab/mesh/axes.py is the order of the axes, innermost first.",
    ),
)
