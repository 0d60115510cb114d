"""Different: pairs of meshes that differ in one axis."""


def kind_of(name):
    if name == "token.weight":
        return "tied"
    return "norm" if "norm" in name else "expert" if "experts" in name else "dense"


def culprit(train):
    largest = max(one.abs().max() for one in train().values())
    pairs = {axis: ({}, {axis: 2}) for axis in ("tp", "pp", "cp", "dp")}
    pairs["ep"] = {"dp": 2}, {"dp": 2, "ep": 2}
    for axis, (before, after) in pairs.items():
        good, found = train(**before), train(**after)
        wrong = [name for name in good if (found[name] - good[name]).abs().max() > 1e-3 * largest]
        if wrong:
            return axis, sorted({kind_of(name) for name in wrong})
    return None, []


def culprit_in(table):
    return culprit(lambda tp=1, pp=1, cp=1, dp=1, ep=1: table[f"tp {tp}, pp {pp}, cp {cp}, dp {dp}, ep {ep}"])
