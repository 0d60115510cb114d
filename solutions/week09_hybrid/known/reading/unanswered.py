"""Wrong: nothing is answered."""

reading_answers = {"default_order": None, "counts": None, "order": None}
