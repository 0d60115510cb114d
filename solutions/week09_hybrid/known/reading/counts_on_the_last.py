"""Wrong: the last tensor-parallel rank."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": -1, "order": ["tp", "cp", "dp", "pp"]}
