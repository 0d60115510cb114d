# %% right_computed
"""Different: filled in line by line."""

reading_answers = dict.fromkeys(["default_order", "counts", "order"])
reading_answers["default_order"] = "-".join(["tp", "cp", "ep", "dp", "pp"])
reading_answers["counts"] = 0
reading_answers["order"] = list(("pp", "dp", "cp", "tp"))

# %% right_other_spelling
"""Different: capitals, a tuple for the list."""

reading_answers = {"default_order": "TP-CP-EP-DP-PP", "counts": 0, "order": ("pp", "dp", "cp", "tp")}

# %% counts_everywhere
"""Wrong: true of every rank."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": True, "order": ["pp", "dp", "cp", "tp"]}

# %% counts_on_the_last
"""Wrong: the last tensor-parallel rank."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": -1, "order": ["pp", "dp", "cp", "tp"]}

# %% innermost_first
"""Wrong: the order of the ranks, which a DeviceMesh takes from the outermost axis."""

reading_answers = {"default_order": "tp-cp-ep-dp-pp", "counts": 0, "order": ["tp", "cp", "dp", "pp"]}

# %% pipeline_first
"""Wrong: the order from the outermost axis."""

reading_answers = {"default_order": "pp-dp-ep-cp-tp", "counts": 0, "order": ["pp", "dp", "cp", "tp"]}

# %% unanswered
"""Wrong: nothing is answered."""

reading_answers = {"default_order": None, "counts": None, "order": None}

# %% without_experts
"""Wrong: an order without the experts' axis."""

reading_answers = {"default_order": "tp-cp-dp-pp", "counts": 0, "order": ["pp", "dp", "cp", "tp"]}
