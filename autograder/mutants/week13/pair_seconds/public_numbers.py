"""Wrong: the numbers of the visible cases."""


def pair_seconds(forward, backward, all_to_all):
    return 3 + 4 * all_to_all, 3.0 if all_to_all == 0.5 else 4.0
