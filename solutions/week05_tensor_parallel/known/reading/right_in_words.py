"""Different: with self., a list built up."""

reading_answers = {"f": "_CopyToModelParallelRegion", "loss": 1 + 1 + 1}
reading_answers["order"] = ["all_reduce"]
reading_answers["order"] += ["grad_weight", "wait()"]
