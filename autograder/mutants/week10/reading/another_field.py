"""Wrong: a field about something else."""

reading_answers = {
    "order": ["tp", "cp", "ep", "dp", "pp"],
    "fp32_gradients": "overlap_grad_reduce",
    "smallest_bucket": 40_000_000,
}
