"""Wrong: left as it was."""

reading_answers = {"first_bucket": None, "at_the_start": None, "order": None}
