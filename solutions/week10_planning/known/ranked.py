# %% right_best_first
"""Different: takes the best again and again."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    work = 6 * model["parameters"] * b * model["sequence"] / gpu["flops"]
    wire = 16 * (tp - 1) * model["layers"] * b * model["sequence"] * model["hidden"] / gpu["nvlink"]
    servers = -(-tp * dp // gpu["per_server"])
    link = gpu["nvlink"] if servers == 1 else min(gpu["nvlink"], gpu["network"] * (gpu["per_server"] // tp))
    data = 6 * model["parameters"] * (1 - 1 / dp) / link
    return ((sequences / dp / b + pp - 1) * (work + wire) + data) / (tp * pp)


def ranked(candidates, model, sequences, gpu):
    left, found = list(candidates), []
    while left:
        found.append(min(left, key=lambda layout: step_seconds(model, layout, sequences, gpu)))
        left.remove(found[-1])
    return found


# %% right_events
"""Different: adds microbatch after microbatch, and sorts pairs."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    tokens = b * model["sequence"]
    slot = 6 * tokens * model["parameters"] / tp / pp / gpu["flops"]
    for _ in range(model["layers"] // pp):
        for _ in range(4):
            slot += 2 * (tp - 1) / tp * (2 * tokens * model["hidden"]) / gpu["nvlink"]
    seconds = sum(slot for _ in range(sequences // dp // b + pp - 1))
    members = len(range(0, gpu["per_server"], tp))  # data-parallel ranks on the first server
    speed = gpu["nvlink"] if dp <= members else min(gpu["nvlink"], sum(gpu["network"] for _ in range(members)))
    for num_bytes in (4, 2):  # gradients go round, weights come back
        seconds += num_bytes * model["parameters"] / tp / pp * (dp - 1) / dp / speed
    return seconds


def ranked(candidates, model, sequences, gpu):
    pairs = [(step_seconds(model, layout, sequences, gpu), place) for place, layout in enumerate(candidates)]
    return [candidates[place] for _, place in sorted(pairs)]


# %% a_reduce_scatter
"""Wrong: half of an all-reduce."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    m = sequences // (dp * b)
    share = model["parameters"] / (tp * pp)
    work = 6 * share * b * model["sequence"] / gpu["flops"]
    activation = 2 * b * model["sequence"] * model["hidden"]
    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
    cards = gpu["per_server"] // tp * gpu["network"]
    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else min(gpu["nvlink"], cards)
    gradients = 6 * share * (dp - 1) / dp / link
    return (m + pp - 1) * (work + tensor) + gradients


def ranked(candidates, model, sequences, gpu):
    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))


# %% all_layers of="a_reduce_scatter"
"""Wrong: every stage reduces every layer."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# %% as_given of="a_reduce_scatter"
"""Wrong: does not rank."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))
# +    return list(candidates)

# %% bubble_off_by_one of="a_reduce_scatter"
"""Wrong: p for p - 1."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return (m + pp - 1) * (work + tensor) + gradients
# +    return (m + pp) * (work + tensor) + gradients

# %% by_sizes of="a_reduce_scatter"
"""Wrong: sorts by the tuples."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))
# +    return sorted(candidates)

# %% counts_an_all_reduce_once of="a_reduce_scatter"
"""Wrong: S for 2(t-1)/t S."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * (activation if tp > 1 else 0) / gpu["nvlink"]

# %% forward_only of="a_reduce_scatter"
"""Wrong: two all-reduces per layer."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 2 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# %% no_bubble of="a_reduce_scatter"
"""Wrong: a pipeline that is always full."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return (m + pp - 1) * (work + tensor) + gradients
# +    return m * (work + tensor) + gradients

# %% no_data_parallel of="a_reduce_scatter"
"""Wrong: forgets the gradients."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return (m + pp - 1) * (work + tensor) + gradients
# +    return (m + pp - 1) * (work + tensor)

# %% one_sequence of="a_reduce_scatter"
"""Wrong: a microbatch of one sequence works as fast as any."""

# -    work = 6 * share * b * model["sequence"] / gpu["flops"]
# +    work = 6 * share * model["sequence"] / gpu["flops"]

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# %% slowest_first of="a_reduce_scatter"
"""Wrong: the slowest first."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))
# +    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu), reverse=True)

# %% tensor_on_the_network of="a_reduce_scatter"
"""Wrong: tensor parallelism over the slow link."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["network"]

# %% the_best_one of="a_reduce_scatter"
"""Wrong: only the winner."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))
# +    return sorted(candidates, key=lambda layout: step_seconds(model, layout, sequences, gpu))[:1]

# %% two_byte_gradients of="a_reduce_scatter"
"""Wrong: gradients of 2 bytes, 4 in all."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    gradients = 6 * share * (dp - 1) / dp / link
# +    gradients = 4 * share * (dp - 1) / dp / link

# %% two_flops_a_weight of="a_reduce_scatter"
"""Wrong: the forward alone."""

# -    work = 6 * share * b * model["sequence"] / gpu["flops"]
# +    work = 2 * share * b * model["sequence"] / gpu["flops"]

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# %% whole_batch_on_the_network of="a_reduce_scatter"
"""Wrong: gradients cross the network in every microbatch."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    return (m + pp - 1) * (work + tensor) + gradients
# +    return (m + pp - 1) * (work + tensor + gradients)

# %% one_card of="a_reduce_scatter"
"""Wrong: one network card for all members on a server."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else min(gpu["nvlink"], cards)
# +    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else gpu["network"]

# %% cards_beyond_nvlink of="a_reduce_scatter"
"""Wrong: forgets that every ring also runs over NVLink."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else min(gpu["nvlink"], cards)
# +    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else cards

# %% always_the_network of="a_reduce_scatter"
"""Wrong: a group inside one server uses the network, too."""

# -    tensor = 4 * model["layers"] / pp * (tp - 1) / tp * activation / gpu["nvlink"]
# +    tensor = 4 * model["layers"] / pp * 2 * (tp - 1) / tp * activation / gpu["nvlink"]

# -    link = gpu["nvlink"] if tp * dp <= gpu["per_server"] else min(gpu["nvlink"], cards)
# +    link = min(gpu["nvlink"], cards)

# %% fastest_alone_in_front
"""Wrong: the fastest comes first, the others as they were given."""


def step_seconds(model, layout, sequences, gpu):
    tp, pp, dp, b = layout
    P = model["parameters"] / tp / pp
    m = sequences / dp / b
    near = tp * dp <= gpu["per_server"]
    link = gpu["nvlink"] if near else min(gpu["nvlink"], gpu["network"] * gpu["per_server"] / tp)
    x = 2 * b * model["sequence"] * model["hidden"] * 2 * (1 - 1 / tp) / gpu["nvlink"]
    return (m + pp - 1) * (6 * P * b * model["sequence"] / gpu["flops"] + 4 * model["layers"] / pp * x) + 6 * P * (
        1 - 1 / dp
    ) / link


def ranked(candidates, model, sequences, gpu):
    b = min(candidates, key=lambda one: step_seconds(model, one, sequences, gpu))
    return [b, *[one for one in candidates if one != b]]
