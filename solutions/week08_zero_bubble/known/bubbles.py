# %% right_as_printed
"""Different: both formulas as the papers print them."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    hops = num_ranks - 1
    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)


# %% a_third of="right_as_printed"
"""Wrong: a third of 1F1B's bubble, which holds at F = I = W only."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
# +    return whole, whole / 3

# %% forgets_weights of="right_as_printed"
"""Wrong: 1F1B without its weight gradients."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks - 1) * (forward + input_gradient)
# +    return whole, whole - (num_ranks - 1) * weight_gradient

# %% num_ranks_hops of="right_as_printed"
"""Wrong: counts ranks instead of the hops between them."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks) * (forward + input_gradient + weight_gradient)
# +    return whole, whole - 2 * (num_ranks) * weight_gradient

# %% one_weight_only of="right_as_printed"
"""Wrong: only one weight gradient moves, the other is still waited for."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
# +    return whole, whole - (num_ranks - 1) * weight_gradient

# %% public_numbers of="right_as_printed"
"""Wrong: the numbers of the visible cases."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    return 9.0, 3.0 if weight_gradient == 1 else 4.2

# %% swapped of="right_as_printed"
"""Wrong: the two numbers in the other order."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
# +    return whole - 2 * (num_ranks - 1) * weight_gradient, whole

# %% zb_h2 of="right_as_printed"
"""Wrong: gives ZB-H2's idle time within the rank's own span for ZB-H1's."""

# -    hops = num_ranks - 1
# -    return hops * (forward + input_gradient + weight_gradient), hops * (forward + input_gradient - weight_gradient)
# +    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
# +    return whole, whole - 3 * (num_ranks - 1) * weight_gradient

# %% right_hop_by_hop
"""Different: adds up hop by hop and returns a list."""


def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    idle = [0.0, 0.0]
    for _ in range(1, num_ranks):
        idle[0] += forward + input_gradient + weight_gradient
        idle[1] += forward + input_gradient - weight_gradient
    return idle
