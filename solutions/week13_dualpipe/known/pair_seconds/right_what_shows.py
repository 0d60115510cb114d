"""Different: computing, and the part of the network that shows."""


def pair_seconds(forward, backward, all_to_all):
    transfers = 2 * (2 * all_to_all)
    shows = max(0.0, transfers - forward - backward)
    return forward + backward + transfers, forward + backward + shows
