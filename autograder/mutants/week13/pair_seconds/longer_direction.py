"""Wrong: forward beside backward, as if there were two devices."""


def pair_seconds(forward, backward, all_to_all):
    return forward + backward + 4 * all_to_all, max(forward, backward) + 4 * all_to_all
