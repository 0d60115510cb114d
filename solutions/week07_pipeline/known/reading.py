# %% right_by_listing
"""Different: lists the messages of a rank's step one by one, with the line's visits in between."""


def predict_trace(rank, world, pp, microbatches, visit):
    apart = world // pp
    ranks = [rank % apart + apart * stage for stage in range(pp)]
    stage = ranks.index(rank)
    first, last = stage == 0, stage == pp - 1
    back, ahead = rank - apart, rank + apart

    def messages(*pairs):
        return [[name, peer] for name, peer in pairs if 0 <= peer < world]

    events = []
    warm_up = min(pp - 1 - stage, microbatches)
    for _ in range(warm_up):
        events += [messages(("irecv", back)), messages(("isend", ahead))]
    steady = microbatches - warm_up
    if steady:
        events += [messages(("irecv", back))]
    for n in range(steady):
        events += ["visit", messages(("isend", ahead), ("irecv", ahead)), "backward"]
        events += [messages(("isend", back), *([("irecv", back)] if n < steady - 1 else []))]
    if not steady:
        events += [messages(("irecv", ahead)), "backward"]
    before = sum(len(one) for one in events[: events.index("backward")] if one != "visit")
    places = [n for n, one in enumerate(events) if one == "visit"]
    after = events[places[visit - 1] :] if visit <= steady else []
    following = next((one for one in after if isinstance(one, list) and one), [])
    return {"ranks": tuple(ranks), "before": before, "next": following}


# %% neighboring_ranks of="right_by_listing"
"""Wrong: takes neighboring ranks for a pipeline."""

# -    ranks = [rank % apart + apart * stage for stage in range(pp)]
# +    ranks = [rank // pp * pp + stage for stage in range(pp)]

# %% no_steady_message of="right_by_listing"
"""Wrong: stops counting at the end of the warm-up."""

# -    before = sum(len(one) for one in events[: events.index("backward")] if one != "visit")
# +    before = warm_up * ((not first) + (not last))

# %% batches of="right_by_listing"
"""Wrong: counts batches instead of messages."""

# -    before = sum(len(one) for one in events[: events.index("backward")] if one != "visit")
# +    before = sum(1 for one in events[: events.index("backward")] if one not in ("visit", []))

# %% receives_first of="right_by_listing"
"""Wrong: the receive before the send."""

# -        events += ["visit", messages(("isend", ahead), ("irecv", ahead)), "backward"]
# +        events += ["visit", messages(("irecv", ahead), ("isend", ahead)), "backward"]

# %% last_stage_is_done of="right_by_listing"
"""Wrong: nothing follows on the last stage."""

# -    following = next((one for one in after if isinstance(one, list) and one), [])
# +    following = [] if last else next((one for one in after if isinstance(one, list) and one), [])

# %% always_one_more of="right_by_listing"
"""Wrong: the last stage waits for another activation after its last one."""

# -        events += [messages(("isend", back), *([("irecv", back)] if n < steady - 1 else []))]
# +        events += [messages(("isend", back), ("irecv", back))]

# %% pipeline_is_full of="right_by_listing"
"""Wrong: never fewer microbatches than the warm-up has."""

# -    warm_up = min(pp - 1 - stage, microbatches)
# +    warm_up = pp - 1 - stage

# %% another_warm_up of="right_by_listing"
"""Wrong: torch's warm-up, with one more forward."""

# -    warm_up = min(pp - 1 - stage, microbatches)
# +    warm_up = min(pp - stage, microbatches)

# %% from_the_page
"""Wrong: what the page's trace shows, for every layout."""


def predict_trace(rank, world, pp, microbatches, visit):
    return {"ranks": [1, 3, 5, 7], "before": 5, "next": [["isend", 7], ["irecv", 7]]}


# %% unanswered
"""Wrong: as released."""


def predict_trace(rank, world, pp, microbatches, visit):
    raise NotImplementedError("week07.reading")


# %% right_page from="page"
"""Different: the page."""
