"""Wrong: the stage method of a full backward."""

reading_answers = {"late_cuts": 1, "weights_by": "grad", "order": ["take", "backward", "put"]}
