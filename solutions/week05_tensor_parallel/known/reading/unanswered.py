"""Wrong: as released."""

reading_answers = {"f": None, "loss": None, "order": None}
