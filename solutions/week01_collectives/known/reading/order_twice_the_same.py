"""Wrong: takes all-gather for its own adjoint."""

reading_answers = {"messages": 10, "backward_of_copy": "all_reduce", "order": ["all_gather", "all_gather"]}
