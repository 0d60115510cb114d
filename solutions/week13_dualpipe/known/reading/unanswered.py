"""Wrong: nothing filled in."""

reading_answers = {"main_steps": None, "weights_in": None, "order": None}
