"""Different: as a tuple, in capitals."""

reading_answers = {
    "order": ("TP", "CP", "EP", "DP", "PP"),
    "fp32_gradients": "grad_reduce_in_fp32",
    "smallest_bucket": 40000000,
}
