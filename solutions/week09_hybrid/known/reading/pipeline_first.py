"""Wrong: the order from the outermost axis."""

reading_answers = {"default_order": "pp-dp-ep-cp-tp", "counts": 0, "order": ["tp", "cp", "dp", "pp"]}
