"""Wrong: the order of the DeviceMesh's dims."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": 0, "order": ["pp", "dp", "cp", "tp"]}
