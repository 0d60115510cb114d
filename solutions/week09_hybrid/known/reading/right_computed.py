"""Different: filled in line by line."""

reading_answers = dict.fromkeys(["default_order", "counts", "order"])
reading_answers["default_order"] = "-".join(["tp", "cp", "ep", "dp", "pp"])
reading_answers["counts"] = 0
reading_answers["order"] = list(("tp", "cp", "dp", "pp"))
