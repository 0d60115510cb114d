"""Wrong: tensor-parallel ranks far apart."""


def groups_of_rank_37():
    return {"tp": [5, 13, 21, 29, 37, 45, 53, 61], "dp": [33, 37], "pp": [36, 37, 38, 39], "leaves": ["dp", "pp"]}
