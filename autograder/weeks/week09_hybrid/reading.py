"""Three answers from real code; the week's own test checks them against that code."""

from autograder.checks.reading import reading_check

READING = {"default_order": "tp-cp-ep-dp-pp", "counts": 0, "order": ["pp", "dp", "cp", "tp"]}

CHECK = reading_check(
    "week09.reading",
    READING,
    {
        "default_order": "look at the default of `order` in initialize_model_parallel",
        "counts": "read param_is_not_tensor_parallel_duplicate: for which tensor-parallel rank does it return True",
        "order": "read create_process_groups: in which order does it put mesh.dense.axes",
    },
    hints=(
        "Open the named files; a few lines of code answer each question.",
        "A string with four hyphens; a number; a list of four names.",
        "Mesh().dense.axes lists the axes innermost first; the last dimension of a DeviceMesh changes fastest.",
    ),
)
