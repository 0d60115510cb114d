"""Wrong: knows three axes in one order."""


def coordinates(rank, sizes):
    tp, dp = sizes.get("tp", 1), sizes.get("dp", 1)
    places = {"tp": rank % tp, "dp": rank // tp % dp, "pp": rank // (tp * dp)}
    return {name: places.get(name, 0) for name in sizes}
