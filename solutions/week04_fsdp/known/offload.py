# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% one_way of="right_as_taught"
"""Wrong: forgets that new weights come back."""

# -        back = max(back, updated) + 2 * num / link
# +        back = max(back, updated)

# %% waits_for_the_backward of="right_as_taught"
"""Wrong: sends nothing before the backward is over."""

# -        ready += seconds
# +        ready = sum(backward_seconds)

# %% one_wire of="right_as_taught"
"""Wrong: both directions share the link."""

# -        arrived = max(arrived, ready) + 2 * num / link
# +        arrived = max(arrived, ready, back) + 2 * num / link

# %% gradients_stay of="right_as_taught"
"""Wrong: keeps the gradients on the GPU as well."""

# -    return [2 * total, 14 * total, 4 * total, back]
# +    return [4 * total, 12 * total, 4 * total, back]

# %% sends_float32 of="right_as_taught"
"""Wrong: sends float32 in both directions."""

# -    return [2 * total, 14 * total, 4 * total, back]
# +    return [2 * total, 14 * total, 8 * total, back]

# %% never_waits of="right_as_taught"
"""Wrong: adds up the parts of each layer, without a queue."""

# -        arrived = max(arrived, ready) + 2 * num / link
# -        updated = max(updated, arrived) + num / adam
# -        back = max(back, updated) + 2 * num / link
# +        arrived = ready + 2 * num / link
# +        updated = arrived + num / adam
# +        back = updated + 2 * num / link

# %% right_stages
"""Different: one stage after another over all layers."""


def one_at_a_time(ready, durations):
    free, done = 0.0, []
    for begin, duration in zip(ready, durations, strict=True):
        free = max(free, begin) + duration
        done.append(free)
    return done


def offload_step(num_parameters, backward_seconds, link, adam):
    copies = [2 * num / link for num in num_parameters]
    ready = one_at_a_time([0.0] * len(copies), backward_seconds)
    arrived = one_at_a_time(ready, copies)
    updated = one_at_a_time(arrived, [num / adam for num in num_parameters])
    seconds = one_at_a_time(updated, copies)[-1]
    weights = 2 * sum(num_parameters)
    return weights, 7 * weights, 2 * weights, seconds
