"""Wrong: counts the messages of a ring, all ranks together."""

reading_answers = {"messages": 60, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}
