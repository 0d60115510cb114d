"""Wrong: True is no number of cuts."""

reading_answers = {"late_cuts": True, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}
