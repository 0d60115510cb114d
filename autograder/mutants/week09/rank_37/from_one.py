"""Wrong: counts ranks from one."""


def groups_of_rank_37():
    return {"tp": [33, 34, 35, 36, 37, 38, 39, 40], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["dp", "pp"]}
