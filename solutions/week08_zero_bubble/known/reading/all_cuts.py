"""Wrong: counts the cuts of the tied layer too."""

reading_answers = {"late_cuts": 3, "weights_by": "grad", "order": ["take", "input_gradient", "put"]}
