"""Wrong: nothing filled in."""

reading_answers = {"late_cuts": None, "weights_by": None, "order": None}
