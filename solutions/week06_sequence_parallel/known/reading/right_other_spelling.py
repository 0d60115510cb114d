"""Different: a tuple, modules in front."""

order = ("_set_all_rng_states()", "detach_variable()", "run_function()", "torch.autograd.backward")
reading_answers = {"gathers": 2, "not_reduced": "_SPLIT_ALONG_FIRST_DIM", "order": order}
