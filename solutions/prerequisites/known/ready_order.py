# %% right_by_the_last_use
"""Different: no hooks; a gradient is complete when the backward has passed the first use of its weight."""


def ready_order(weights, order, x):
    seen = []
    for number in order:
        if number not in seen:
            seen.append(number)
    seen.reverse()
    return seen


# %% one_number_for_all
"""Wrong: the lambda sees the loop's last number, whichever hook runs."""


def ready_order(weights, order, x):
    ready, leaves = [], [weight.clone().requires_grad_() for weight in weights]
    numbers = []
    for number, leaf in enumerate(leaves):
        numbers[:] = [number]
        leaf.register_post_accumulate_grad_hook(lambda _: ready.append(numbers[0]))
    for step in order:
        x = x @ leaves[step]
    x.sum().backward()
    return ready


# %% in_the_order_of_the_forward of="one_number_for_all"
"""Wrong: the order of the forward."""

# -    return ready
# +    return ready and list(dict.fromkeys(order))

# %% every_use of="one_number_for_all"
"""Wrong: reversed uses, so a weight that is used twice is in the list twice."""

# -    return ready
# +    return ready and list(order)[::-1]

# %% at_the_last_use of="one_number_for_all"
"""Wrong: takes a gradient for complete at the first step of the backward that adds to it."""

# -    return ready
# +    return ready and list(dict.fromkeys(list(order)[::-1]))

# %% every_weight of="one_number_for_all"
"""Wrong: all weights in reverse, also those that were not used."""

# -    return ready
# +    return ready and list(range(len(weights)))[::-1]

# %% right_page from="page"
"""Different: the page."""
