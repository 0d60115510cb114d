"""Wrong: counts the levels of the tree instead of its messages."""

reading_answers = {"messages": 6, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}
