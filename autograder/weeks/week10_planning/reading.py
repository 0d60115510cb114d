"""Three answers from Megatron-Core's code; `tests/autograder/test_week10.py` asks the code itself."""

from autograder.checks.reading import reading_check

READING = {
    "order": ["tp", "cp", "ep", "dp", "pp"],
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40_000_000,
}

CHECK = reading_check(
    "week10.reading",
    READING,
    {
        "order": "look at the default of `order` in initialize_model_parallel",
        "fp32_gradients": "look for a field of DistributedDataParallelConfig: in which type are gradients reduced",
        "smallest_bucket": "look at how DistributedDataParallel fills a bucket_size of None",
    },
    hints=(
        "Open the named files; each question is answered by a few lines of code.",
        "Defaults of arguments say what a framework thinks normal; a dataclass lists its fields with defaults.",
        "The bucket is a max of two numbers, one of which grows with the data-parallel size.",
    ),
)
