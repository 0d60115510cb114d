# %% right_computed
"""Different: filled in line by line."""

reading_answers = dict.fromkeys(["gathers", "not_reduced", "order"])
reading_answers["gathers"] = 1 + 1
reading_answers["not_reduced"] = "_split_along_first_dim()"
reading_answers["order"] = ["_set_all_rng_states", "detach_variable", "run_function", "backward"]

# %% once of="right_computed"
"""Wrong: the forward's gather alone."""

# -reading_answers["gathers"] = 1 + 1
# +reading_answers["gathers"] = 1

# %% true_for_two of="right_computed"
"""Wrong: a text for the number."""

# -reading_answers["gathers"] = 1 + 1
# +reading_answers["gathers"] = "two"

# %% reduces of="right_computed"
"""Wrong: the branch that sums."""

# -reading_answers["not_reduced"] = "_split_along_first_dim()"
# +reading_answers["not_reduced"] = "_reduce_scatter_along_first_dim"

# %% last_dim of="right_computed"
"""Wrong: the wrong dimension."""

# -reading_answers["not_reduced"] = "_split_along_first_dim()"
# +reading_answers["not_reduced"] = "_split_along_last_dim"

# %% state_after_the_run of="right_computed"
"""Wrong: sets the random state after the second run."""

# -reading_answers["order"] = ["_set_all_rng_states", "detach_variable", "run_function", "backward"]
# +reading_answers["order"] = ["detach_variable", "run_function", "_set_all_rng_states", "backward"]

# %% detached_first of="right_computed"
"""Wrong: detaches before it sets the state."""

# -reading_answers["order"] = ["_set_all_rng_states", "detach_variable", "run_function", "backward"]
# +reading_answers["order"] = ["detach_variable", "_set_all_rng_states", "run_function", "backward"]

# %% unanswered of="right_computed"
"""Wrong: nothing is answered."""

# -reading_answers["gathers"] = 1 + 1
# -reading_answers["not_reduced"] = "_split_along_first_dim()"
# -reading_answers["order"] = ["_set_all_rng_states", "detach_variable", "run_function", "backward"]

# %% right_other_spelling
"""Different: a tuple, modules in front."""

order = ("_set_all_rng_states()", "detach_variable()", "run_function()", "torch.autograd.backward")
reading_answers = {"gathers": 2, "not_reduced": "_SPLIT_ALONG_FIRST_DIM", "order": order}
