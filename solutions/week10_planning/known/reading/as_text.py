"""Wrong: a text for a list."""

reading_answers = {"order": "tp-cp-ep-dp-pp", "fp32_gradients": "grad_reduce_in_fp32", "smallest_bucket": 40_000_000}
