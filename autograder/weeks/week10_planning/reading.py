"""Three answers from Megatron-Core's code; the week's own test checks them against that code."""

from autograder.checks.reading import reading_check

READING = {
    "replicas": 4,
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40_000_000,
}

CHECK = reading_check(
    "week10.reading",
    READING,
    {
        "replicas": "look at how initialize_model_parallel computes data_parallel_size: which sizes divide the world",
        "fp32_gradients": "look for a field of DistributedDataParallelConfig: in which dtype are gradients reduced",
        "smallest_bucket": "look at how DistributedDataParallel sets the bucket size if bucket_size is None",
    },
    hints=(
        "Open the named files; a few lines of code answer each question.",
        "Default arguments show what a framework considers normal; a dataclass lists its fields with their defaults.",
        "The bucket size is the max of two numbers, one of which grows with the data-parallel size.",
    ),
)
