# %% right_by_part
"""Different: adds up the parts."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    parts = [2 * num_parameters, 2 * num_parameters, 12 * num_parameters]
    ours = [part / num_ranks for part in parts]
    return sum(parts) / sum(ours), sum([*parts, activation_bytes]) / sum([*ours, activation_bytes])


# %% right_simplified
"""Different: N, and one fraction."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    both = 16 * num_parameters + activation_bytes
    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))


# %% activations_in_the_cut_only of="right_simplified"
"""Wrong: DDP has activations as well."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
# +    return whole / cut, whole / (cut + activation_bytes)

# %% n_of_everything of="right_simplified"
"""Wrong: N times of the activations, too."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    return num_ranks, num_ranks

# %% public_sizes of="right_simplified"
"""Wrong: knows 64 ranks."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 16 * num_parameters, 16 * num_parameters / 64
# +    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)

# %% swapped of="right_simplified"
"""Wrong: the two factors change places."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
# +    return (whole + activation_bytes) / (cut + activation_bytes), whole / cut

# %% the_other_way of="right_simplified"
"""Wrong: small over large."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
# +    return cut / whole, (cut + activation_bytes) / (whole + activation_bytes)

# %% three_n of="right_simplified"
"""Wrong: the notes' 3N."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    return 3 * num_ranks, 3 * num_ranks

# %% weights_only of="right_simplified"
"""Wrong: counts 2 bytes per parameter."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 2 * num_parameters, 2 * num_parameters / num_ranks
# +    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)

# %% zero_2 of="right_simplified"
"""Wrong: the weights are not cut."""

# -    both = 16 * num_parameters + activation_bytes
# -    return num_ranks, both * num_ranks / (both + activation_bytes * (num_ranks - 1))
# +    whole, cut = 16 * num_parameters, 2 * num_parameters + 14 * num_parameters / num_ranks
# +    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)
