# %% right_by_counting
"""Different: a table of zeros that is filled row by row."""


def predict_trace(rank, experts, h, routes):
    ranks = len(routes)
    table = [[0] * ranks for _ in range(ranks)]
    for source, tokens in enumerate(routes):
        for token in tokens:
            for expert in token:
                table[source][expert * ranks // experts] += 1
    sent = table[rank]
    received = [row[rank] for row in table]
    n, m = sum(sent), sum(received)
    given = [(n, h), (n,), (m, h)]
    given += [(n, h), (m,), (m, h)]
    return {"sent": sent, "received": received, "given": given}


# %% once_per_rank of="right_by_counting"
"""Wrong: a token whose two experts share a rank is sent there once."""

# -            for expert in token:
# -                table[source][expert * ranks // experts] += 1
# +            for target in {expert * ranks // experts for expert in token}:
# +                table[source][target] += 1

# %% experts_in_turn of="right_by_counting"
"""Wrong: experts dealt to ranks in turn."""

# -                table[source][expert * ranks // experts] += 1
# +                table[source][expert % ranks] += 1

# %% both_the_row of="right_by_counting"
"""Wrong: receives what it sends."""

# -    received = [row[rank] for row in table]
# +    received = table[rank]

# %% weights_last of="right_by_counting"
"""Wrong: the backward in the forward's order."""

# -    given += [(n, h), (m,), (m, h)]
# +    given += [(n, h), (m, h), (m,)]

# %% no_weights of="right_by_counting"
"""Wrong: forgets that the weights travel, too."""

# -    given = [(n, h), (n,), (m, h)]
# -    given += [(n, h), (m,), (m, h)]
# +    given = [(n, h), (m, h), (n, h), (m, h)]

# %% forward_alone of="right_by_counting"
"""Wrong: forgets the backward."""

# -    given += [(n, h), (m,), (m, h)]
# +    given += []

# %% tokens_for_rows of="right_by_counting"
"""Wrong: one row per token."""

# -            for expert in token:
# -                table[source][expert * ranks // experts] += 1
# +            table[source][token[0] * ranks // experts] += 1

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(rank, experts, h, routes):
    return {"sent": [3, 3], "received": [3, 2], "given": [[6, 8], [6], [5, 8], [6, 8], [5], [5, 8]]}


# %% unanswered
"""Wrong: as released."""


def predict_trace(rank, experts, h, routes):
    raise NotImplementedError("week12.reading")


# %% right_page from="page"
"""Different: the page."""
