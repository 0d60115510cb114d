"""Wrong: the pipeline before data parallelism."""

reading_answers = {
    "order": ["tp", "cp", "ep", "pp", "dp"],
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40_000_000,
}
