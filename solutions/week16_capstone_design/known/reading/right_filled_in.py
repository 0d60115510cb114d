"""Different: key by key."""

reading_answers = {"not_counted": None, "order": None, "default": None}
reading_answers["not_counted"] = "HEALTHY"
reading_answers["order"] = ["_stop_workers", "_initialize_workers"]
reading_answers["default"] = 3
