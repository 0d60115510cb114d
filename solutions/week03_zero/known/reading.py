# %% right_by_owner
"""Different: a buffer of owners, one entry per number."""


def predict_trace(rank, world, widths, overlap):
    buffer = []
    for number in reversed(range(len(widths) - 1)):
        while len(buffer) % 64:
            buffer.append(None)
        buffer += [number] * (widths[number] * widths[number + 1])
    while len(buffer) % 128 or len(buffer) % world:
        buffer.append(None)
    length = len(buffer) // world
    mine = buffer[rank * length : (rank + 1) * length]
    parts = [mine.count(number) for number in reversed(range(len(widths) - 1))]
    sums = ["reduce_scatter_tensor", "all_reduce"]
    calls = ["all_gather_into_tensor", *sums] if overlap else [*sums, "all_gather_into_tensor"]
    return {"message": (len(buffer), length), "parts": [part for part in parts if part], "calls": calls}


# %% forward_order of="right_by_owner"
"""Wrong: parameters from the first to the last."""

# -    for number in reversed(range(len(widths) - 1)):
# +    for number in range(len(widths) - 1):

# %% close_together of="right_by_owner"
"""Wrong: no padding between parameters."""

# -        while len(buffer) % 64:
# -            buffer.append(None)

# %% pads_to_the_world of="right_by_owner"
"""Wrong: pads the end to a multiple of the ranks only."""

# -    while len(buffer) % 128 or len(buffer) % world:
# +    while len(buffer) % world:

# %% pads_to_128 of="right_by_owner"
"""Wrong: pads the end to a multiple of 128 only; three ranks get unequal slices."""

# -    while len(buffer) % 128 or len(buffer) % world:
# +    while len(buffer) % 128:

# %% whole_parameters of="right_by_owner"
"""Wrong: a parameter belongs to the rank where it begins."""

# -    parts = [mine.count(number) for number in reversed(range(len(widths) - 1))]
# +    owned = [number for number in dict.fromkeys(mine) if number is not None]
# +    parts = [widths[number] * widths[number + 1] for number in owned]

# %% keeps_nothing_out of="right_by_owner"
"""Wrong: lists parameters of which the rank has nothing."""

# -    return {"message": (len(buffer), length), "parts": [part for part in parts if part], "calls": calls}
# +    return {"message": (len(buffer), length), "parts": parts, "calls": calls}

# %% same_with_overlap of="right_by_owner"
"""Wrong: the same order with overlap."""

# -    calls = ["all_gather_into_tensor", *sums] if overlap else [*sums, "all_gather_into_tensor"]
# +    calls = [*sums, "all_gather_into_tensor"]

# %% clips_at_the_end of="right_by_owner"
"""Wrong: the norm after the weights."""

# -    calls = ["all_gather_into_tensor", *sums] if overlap else [*sums, "all_gather_into_tensor"]
# +    calls = ["reduce_scatter", "all_gather", "all_reduce"]

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(rank, world, widths, overlap):
    return {"message": [640, 160], "parts": [48, 96], "calls": ["reduce_scatter", "all_reduce", "all_gather"]}


# %% unanswered
"""Wrong: as released."""


def predict_trace(rank, world, widths, overlap):
    raise NotImplementedError("week03.reading")


# %% right_page from="page"
"""Different: the page."""
