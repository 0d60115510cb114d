"""Different: written down by hand."""


def groups_of_rank_37():
    return {"tp": [32, 33, 34, 35, 36, 37, 38, 39], "dp": [37, 45], "pp": [5, 21, 37, 53], "leaves": ["pp", "dp"]}
