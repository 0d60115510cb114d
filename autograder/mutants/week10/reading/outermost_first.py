"""Wrong: the other way round."""

reading_answers = {
    "order": ["pp", "dp", "ep", "cp", "tp"],
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40_000_000,
}
