# %% right_by_table
"""Different: builds the table of forwards and counts messages one by one."""


def predict_trace(rank, pp, chunks, microbatches, visit):
    table = []
    for begin in range(0, microbatches, pp):
        for chunk in range(chunks):
            table += [(chunk, m) for m in range(begin, begin + pp)]
    messages = 0
    for chunk, _ in table:
        stage = chunk * pp + rank
        messages += 2 * (stage > 0) + 2 * (stage < chunks * pp - 1)
    warm_up = 2 * (pp - 1 - rank)
    warm_up += (chunks - 1) * pp
    before = min(warm_up + 1, len(table))
    backward = chunks - 1 - table[visit - 1][0]
    return {"before": before, "forward": table[visit - 1], "backward": backward, "messages": messages}


# %% warm_up_alone of="right_by_table"
"""Wrong: forgets the forward that opens the steady state."""

# -    before = min(warm_up + 1, len(table))
# +    before = min(warm_up, len(table))

# %% more_than_there_are of="right_by_table"
"""Wrong: a warm-up longer than the step."""

# -    before = min(warm_up + 1, len(table))
# +    before = warm_up + 1

# %% one_per_rank of="right_by_table"
"""Wrong: 1F1B's warm-up, one forward per rank behind."""

# -    warm_up = 2 * (pp - 1 - rank)
# +    warm_up = pp - 1 - rank

# %% chunk_after_chunk of="right_by_table"
"""Wrong: all microbatches of a chunk, then the next chunk."""

# -    for begin in range(0, microbatches, pp):
# -        for chunk in range(chunks):
# -            table += [(chunk, m) for m in range(begin, begin + pp)]
# +    for chunk in range(chunks):
# +        table += [(chunk, m) for m in range(microbatches)]

# %% alternates of="right_by_table"
"""Wrong: each microbatch through all chunks."""

# -            table += [(chunk, m) for m in range(begin, begin + pp)]
# +            table += [((begin * chunks + chunk * pp + m) % chunks, begin + m // chunks) for m in range(pp)]

# %% same_chunk of="right_by_table"
"""Wrong: the backward in the forward's order of chunks."""

# -    backward = chunks - 1 - table[visit - 1][0]
# +    backward = table[visit - 1][0]

# %% no_ring of="right_by_table"
"""Wrong: a pipeline without a wrap from the last rank to the first."""

# -        messages += 2 * (stage > 0) + 2 * (stage < chunks * pp - 1)
# +        messages += 2 * (rank > 0) + 2 * (rank < pp - 1)

# %% sends_alone of="right_by_table"
"""Wrong: counts sends only."""

# -        messages += 2 * (stage > 0) + 2 * (stage < chunks * pp - 1)
# +        messages += (stage > 0) + (stage < chunks * pp - 1)

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(rank, pp, chunks, microbatches, visit):
    return {"before": 9, "forward": [1, 2], "backward": 0, "messages": 64}


# %% unanswered
"""Wrong: as released."""


def predict_trace(rank, pp, chunks, microbatches, visit):
    raise NotImplementedError("week08.reading")


# %% right_page from="page"
"""Different: the page."""
