# %% right_computed
"""Different: the number of messages is computed, the answers are filled in one by one."""

reading_answers = dict(messages=2 * (6 - 1))
reading_answers["order"] = list(("all_gather", "reduce_scatter"))
reading_answers["backward_of_copy"] = "all_" + "reduce"

# %% right_other_spelling
"""Different: capital letters and a tuple."""

messages = len(["up"] * 5 + ["down"] * 5)
reading_answers = {
    "messages": messages,
    "backward_of_copy": "all_reduce",
    "order": list(("all_gather", "reduce_scatter")),
}

# %% backward_gathers
"""Wrong: names the collective of another class of that file."""

reading_answers = {"messages": 10, "backward_of_copy": "all_gather", "order": ["all_gather", "reduce_scatter"]}

# %% copy_is_a_copy
"""Wrong: takes the backward of a copy for a copy."""

reading_answers = {"messages": 10, "backward_of_copy": "copy", "order": ["all_gather", "reduce_scatter"]}

# %% levels_for_messages
"""Wrong: counts the levels of the tree instead of its messages."""

reading_answers = {"messages": 6, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}

# %% one_way
"""Wrong: counts the messages up the tree and forgets the way down."""

reading_answers = {"messages": 5, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}

# %% order_reversed
"""Wrong: backward before forward."""

reading_answers = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["reduce_scatter", "all_gather"]}

# %% order_twice_the_same
"""Wrong: takes all-gather for its own adjoint."""

reading_answers = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "all_gather"]}

# %% ring_messages
"""Wrong: counts the messages of a ring, all ranks together."""

reading_answers = {"messages": 60, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}

# %% unanswered
"""Wrong: the cell as it was handed out."""

reading_answers = {"messages": None, "backward_of_copy": None, "order": None}
