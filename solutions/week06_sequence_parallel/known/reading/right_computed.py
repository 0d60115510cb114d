"""Different: filled in line by line."""

reading_answers = dict.fromkeys(["gathers", "not_reduced", "order"])
reading_answers["gathers"] = 1 + 1
reading_answers["not_reduced"] = "_split_along_first_dim()"
reading_answers["order"] = ["_set_all_rng_states", "detach_variable", "run_function", "backward"]
