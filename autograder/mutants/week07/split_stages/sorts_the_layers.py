"""Wrong: puts layers on stages by weight, as if their order did not matter, and returns how many each has."""


def split_stages(seconds, num_stages):
    loads, sizes = [0] * num_stages, [0] * num_stages
    for second in sorted(seconds, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += second
        sizes[lightest] += 1
    return sizes
