# %% right_by_walking
"""Different: walks through the layers and appends each call."""


def predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary):
    layers = ["column", "row"] * blocks + ["column"]
    activation = (s, b, h)
    calls = [activation] * (tp > 1)  # the embedding's g
    for layer in layers:
        if layer == "row" and tp > 1:
            calls.append(activation)
    calls += [(s, b)] * 3
    followed = [n for n, layer in enumerate(reversed(layers), 1) if layer == "column" and tp > 1]
    calls += [activation] * len(followed)
    group = [other for other in range(world) if other // tp == rank // tp]
    return {"ranks": group, "weight": (h, f // tp), "followed": followed, "calls": calls}


# %% quiet_loss of="right_by_walking"
"""Wrong: takes the loss for silent in a group of one."""

# -    calls += [(s, b)] * 3
# +    calls += [(s, b)] * (3 if tp > 1 else 0)

# %% two_numbers_per_token of="right_by_walking"
"""Wrong: forgets the maximum."""

# -    calls += [(s, b)] * 3
# +    calls += [(s, b)] * 2

# %% silent_embedding of="right_by_walking"
"""Wrong: forgets that a split embedding sums, too."""

# -    calls = [activation] * (tp > 1)  # the embedding's g
# +    calls = []

# %% as_in_our_layers of="right_by_walking"
"""Wrong: the weight as [inputs, outputs]."""

# -    return {"ranks": group, "weight": (h, f // tp), "followed": followed, "calls": calls}
# +    return {"ranks": group, "weight": (f // tp, h), "followed": followed, "calls": calls}

# %% row_layers_reduce of="right_by_walking"
"""Wrong: an all-reduce for the backward of row layers instead."""

# -    followed = [n for n, layer in enumerate(reversed(layers), 1) if layer == "column" and tp > 1]
# +    followed = [n for n, layer in enumerate(reversed(layers), 1) if layer == "row" and tp > 1]

# %% forward_order of="right_by_walking"
"""Wrong: numbers the backward's visits from the other end, and forgets the head."""

# -    layers = ["column", "row"] * blocks + ["column"]
# +    layers = ["column", "row"] * blocks

# %% first_group of="right_by_walking"
"""Wrong: the group of rank 0."""

# -    group = [other for other in range(world) if other // tp == rank // tp]
# +    group = list(range(tp))

# %% every_nth of="right_by_walking"
"""Wrong: the ranks of the data-parallel group."""

# -    group = [other for other in range(world) if other // tp == rank // tp]
# +    group = [other for other in range(world) if other % tp == rank % tp]

# %% whole_activation_split of="right_by_walking"
"""Wrong: takes the activation for split."""

# -    activation = (s, b, h)
# +    activation = (s, b, h // tp)

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary):
    calls = [[3, 1, 8]] * 3 + [[3, 1]] * 3 + [[3, 1, 8]] * 3
    return {"ranks": [4, 5, 6, 7], "weight": [8, 4], "followed": [1, 3, 5], "calls": calls}


# %% no_dict
"""Wrong: a list instead of a dict."""


def predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary):
    return [[rank // tp * tp], [h, f // tp], [], []]


# %% unanswered
"""Wrong: as released."""


def predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary):
    raise NotImplementedError("week05.reading")


# %% right_page from="page"
"""Different: the page."""
