"""Wrong: leaves rank 37 out of its own groups."""


def groups_of_rank_37():
    return {"tp": [32, 33, 34, 35, 36, 38, 39], "dp": [45], "pp": [5, 21, 53], "leaves": ["dp", "pp"]}
