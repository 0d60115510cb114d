# %% right_hop_by_hop
"""Different: adds up hop by hop."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    idle = 0.0
    for _ in range(num_ranks // 2 - 1):
        idle += pair
        idle += forward - 2 * weight_gradient
    return [idle, 1 + num_ranks]


# %% right_names
"""Different: input gradient and backward by name."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    input_gradient = forward
    full_backward = input_gradient + weight_gradient
    hops = (num_ranks - 2) // 2
    return hops * pair + hops * full_backward - 3 * hops * weight_gradient, num_ranks + 1


# %% as_many_as_ranks
"""Wrong: the activations of 1F1B."""


def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    backward = forward + weight_gradient
    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks


# %% b_is_the_input_gradient of="as_many_as_ranks"
"""Wrong: takes B for the gradient of the input alone."""

# -    backward = forward + weight_gradient
# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    backward = forward
# +    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks + 1

# %% half_the_ranks of="as_many_as_ranks"
"""Wrong: counts ranks to the middle instead of hops."""

# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    return (num_ranks / 2) * (pair + backward - 3 * weight_gradient), num_ranks + 1

# %% pair_is_forward_and_backward of="as_many_as_ranks"
"""Wrong: a pair that hides nothing."""

# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    return (num_ranks / 2 - 1) * (forward + backward + backward - 3 * weight_gradient), num_ranks + 1

# %% public_numbers of="as_many_as_ranks"
"""Wrong: the numbers of the visible cases."""

# -    backward = forward + weight_gradient
# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    return 6.0 if weight_gradient == 1 else 6.6, 9

# %% two_weights of="as_many_as_ranks"
"""Wrong: subtracts two weight gradients, as for ZB-H1."""

# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    return (num_ranks / 2 - 1) * (pair + backward - 2 * weight_gradient), num_ranks + 1

# %% whole_pipeline of="as_many_as_ranks"
"""Wrong: as if microbatches entered at one end."""

# -    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks
# +    return (num_ranks - 1) * (pair + backward - 3 * weight_gradient), num_ranks + 1
