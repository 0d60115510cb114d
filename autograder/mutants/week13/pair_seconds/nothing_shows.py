"""Wrong: as if any transfer could be hidden."""


def pair_seconds(forward, backward, all_to_all):
    return forward + backward + 4 * all_to_all, forward + backward
