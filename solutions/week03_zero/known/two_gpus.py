# %% right_by_parts
"""Different: weights, gradients and states, each halved from its stage on."""


def hundred_million_on_two():
    weights, gradients, states = 0.2, 0.2, 1.2
    return [
        weights + gradients + states,
        weights + gradients + states / 2,
        weights + gradients / 2 + states / 2,
        (weights + gradients + states) / 2,
    ]


# %% right_written_down
"""Different: the four numbers."""


def hundred_million_on_two():
    return 1.6, 1.0, 0.9, 0.8


# %% eight_gpus
"""Wrong: takes the eight ranks of the text."""


def state_bytes(num_parameters, num_ranks):
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut]


def hundred_million_on_two():
    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]


# %% gibibytes of="eight_gpus"
"""Wrong: divides by 2 to the 30."""

# -    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]
# +    return [num_bytes / 2**30 for num_bytes in state_bytes(100e6, 2)]

# %% in_bytes of="eight_gpus"
"""Wrong: answers in bytes."""

# -    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]
# +    return [num_bytes for num_bytes in state_bytes(100e6, 2)]

# %% of_both_gpus of="eight_gpus"
"""Wrong: adds both GPUs up."""

# -    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]
# +    return [2 * num_bytes / 1e9 for num_bytes in state_bytes(100e6, 2)]

# %% one_gpu of="eight_gpus"
"""Wrong: forgets that there are two."""

# -    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 8)]
# +    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 1)]
