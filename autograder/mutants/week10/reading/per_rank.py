"""Wrong: the other term of the max."""

reading_answers = {
    "order": ["tp", "cp", "ep", "dp", "pp"],
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 1_000_000,
}
