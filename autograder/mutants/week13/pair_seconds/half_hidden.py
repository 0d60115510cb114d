"""Wrong: hides half of the transfers."""


def pair_seconds(forward, backward, all_to_all):
    return forward + backward + 4 * all_to_all, forward + backward + 2 * all_to_all
