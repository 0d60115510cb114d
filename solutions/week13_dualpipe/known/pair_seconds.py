# %% right_by_cases
"""Different: by cases, as a list."""


def pair_seconds(forward, backward, all_to_all):
    compute = forward + backward
    network = sum(all_to_all for _ in ("dispatch", "combine") for _ in "FB")
    if network > compute:
        return [compute + network, network]
    return [compute + network, compute]


# %% right_what_shows
"""Different: computing, and the part of the network that shows."""


def pair_seconds(forward, backward, all_to_all):
    transfers = 2 * (2 * all_to_all)
    shows = max(0.0, transfers - forward - backward)
    return forward + backward + transfers, forward + backward + shows


# %% half_hidden of="right_what_shows"
"""Wrong: hides half of the transfers."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return forward + backward + 4 * all_to_all, forward + backward + 2 * all_to_all

# %% longer_direction of="right_what_shows"
"""Wrong: forward beside backward, as if there were two devices."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return forward + backward + 4 * all_to_all, max(forward, backward) + 4 * all_to_all

# %% nothing_shows of="right_what_shows"
"""Wrong: as if any transfer could be hidden."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return forward + backward + 4 * all_to_all, forward + backward

# %% public_numbers of="right_what_shows"
"""Wrong: the numbers of the visible cases."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return 3 + 4 * all_to_all, 3.0 if all_to_all == 0.5 else 4.0

# %% swapped of="right_what_shows"
"""Wrong: the two in the other order."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return max(forward + backward, 4 * all_to_all), forward + backward + 4 * all_to_all

# %% two_transfers of="right_what_shows"
"""Wrong: forgets those of the backward."""

# -    transfers = 2 * (2 * all_to_all)
# -    shows = max(0.0, transfers - forward - backward)
# -    return forward + backward + transfers, forward + backward + shows
# +    return forward + backward + 2 * all_to_all, max(forward + backward, 2 * all_to_all)
