"""Wrong: names the collective of another class of that file."""

reading_answers = {"messages": 10, "backward_of_copy": "all_gather", "order": ["all_gather", "reduce_scatter"]}
