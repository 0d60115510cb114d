"""Wrong: takes the backward of a copy for a copy."""

reading_answers = {"messages": 10, "backward_of_copy": "copy", "order": ["all_gather", "reduce_scatter"]}
