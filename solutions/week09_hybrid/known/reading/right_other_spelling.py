"""Different: capitals, a tuple for the list."""

reading_answers = {"default_order": "TP-CP-EP-DP-PP", "counts": 0, "order": ("tp", "cp", "dp", "pp")}
