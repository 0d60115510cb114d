"""Different: the number of messages is computed, the answers are filled in one by one."""

reading_answers = dict(messages=2 * (6 - 1))
reading_answers["order"] = list(("all_gather", "reduce_scatter"))
reading_answers["backward_of_copy"] = "all_" + "reduce"
