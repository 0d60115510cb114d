"""Different: by cases, as a list."""


def pair_seconds(forward, backward, all_to_all):
    compute = forward + backward
    network = sum(all_to_all for _ in ("dispatch", "combine") for _ in "FB")
    if network > compute:
        return [compute + network, network]
    return [compute + network, compute]
