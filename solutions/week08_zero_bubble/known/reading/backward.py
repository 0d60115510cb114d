"""Wrong: names the function that would have fired the hooks."""

reading_answers = {"late_cuts": 1, "weights_by": "backward", "order": ["take", "input_gradient", "put"]}
