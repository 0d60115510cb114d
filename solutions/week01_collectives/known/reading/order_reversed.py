"""Wrong: backward before forward."""

reading_answers = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["reduce_scatter", "all_gather"]}
