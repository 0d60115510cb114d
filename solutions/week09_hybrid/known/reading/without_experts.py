"""Wrong: an order without the experts' axis."""

reading_answers = {"default_order": "tp-cp-dp-pp", "counts": 0, "order": ["tp", "cp", "dp", "pp"]}
