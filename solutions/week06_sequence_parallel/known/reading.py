# %% right_by_pairs
"""Different: a list of pairs, with torch's full names and tuples."""


def predict_trace(tp, s, b, h, whole_gradient):
    part, whole = (s // tp, b, h), (s, b, h)
    gather, scatter = ("all_gather_into_tensor", part), ("reduce_scatter_tensor", whole)
    forward = [gather, scatter, gather]
    backward = [] if whole_gradient else [scatter]
    backward += [gather, gather, scatter]
    names, shapes = zip(*(forward + backward), strict=True)
    return {"calls": names, "given": shapes, "kept": [part, whole], "next": gather}


# %% always_reduces of="right_by_pairs"
"""Wrong: sums a gradient that every rank already has."""

# -    backward = [] if whole_gradient else [scatter]
# +    backward = [scatter]

# %% never_reduces of="right_by_pairs"
"""Wrong: never sums the last gather's gradient."""

# -    backward = [] if whole_gradient else [scatter]
# +    backward = []

# %% keeps_the_gathered of="right_by_pairs"
"""Wrong: the gathered input is kept, so nothing is gathered again."""

# -    backward += [gather, gather, scatter]
# +    backward += [gather, scatter]

# %% keeps_all_rows of="right_by_pairs"
"""Wrong: all rows are saved for the backward."""

# -    return {"calls": names, "given": shapes, "kept": [part, whole], "next": gather}
# +    return {"calls": names, "given": shapes, "kept": [whole, whole], "next": gather}

# %% row_layer_scatters of="right_by_pairs"
"""Wrong: after the row layer's product comes a reduce-scatter."""

# -    return {"calls": names, "given": shapes, "kept": [part, whole], "next": gather}
# +    return {"calls": names, "given": shapes, "kept": [part, whole], "next": scatter}

# %% all_reduces of="right_by_pairs"
"""Wrong: tensor parallelism without sequence parallelism."""

# -    gather, scatter = ("all_gather_into_tensor", part), ("reduce_scatter_tensor", whole)
# +    gather, scatter = ("all_reduce", whole), ("all_reduce", whole)

# %% outputs_for_inputs of="right_by_pairs"
"""Wrong: the shapes that come out."""

# -    gather, scatter = ("all_gather_into_tensor", part), ("reduce_scatter_tensor", whole)
# +    gather, scatter = ("all_gather_into_tensor", whole), ("reduce_scatter_tensor", part)

# %% splits_columns of="right_by_pairs"
"""Wrong: splits the hidden size, not the sequence."""

# -    part, whole = (s // tp, b, h), (s, b, h)
# +    part, whole = (s, b, h // tp), (s, b, h)

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(tp, s, b, h, whole_gradient):
    part, whole = [4, 1, 6], [8, 1, 6]
    calls = ["all_gather", "reduce_scatter", "all_gather", "all_gather", "all_gather", "reduce_scatter"]
    given = [part, whole, part, part, part, whole]
    return {"calls": calls, "given": given, "kept": [part, whole], "next": ["all_gather", part]}


# %% unanswered
"""Wrong: as released."""


def predict_trace(tp, s, b, h, whole_gradient):
    raise NotImplementedError("week06.reading")


# %% right_page from="page"
"""Different: the page."""
