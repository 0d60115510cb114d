"""Wrong: left as it was."""

reading_answers = {"order": None, "fp32_gradients": None, "smallest_bucket": None}
