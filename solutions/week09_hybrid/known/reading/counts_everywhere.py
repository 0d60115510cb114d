"""Wrong: true of every rank."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": True, "order": ["tp", "cp", "dp", "pp"]}
