"""Wrong: counts tied weights once instead of leaving them out."""

reading_answers = {"late_cuts": 2, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}
