"""Wrong: the result before it is computed."""

reading_answers = {"late_cuts": 1, "weights_by": "grad", "order": ["put", "input_gradient", "take"]}
