"""Wrong: counts the messages up the tree and forgets the way down."""

reading_answers = {"messages": 5, "backward_of_copy": "all_reduce", "order": ["all_gather", "reduce_scatter"]}
