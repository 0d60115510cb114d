"""Different: filled in afterwards, a tuple, with brackets behind the names."""

reading_answers = {"waiting": None, "counts": None, "order": None}
reading_answers |= {"waiting": "num_nodes_waiting()", "counts": False}
reading_answers["order"] = ("dump", "fsync", "rm_file", "rename")
