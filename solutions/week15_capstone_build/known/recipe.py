# %% right_pipeline
"""Different: two stages, two replicas with half of the experts, sharded Adam, four microbatches."""

recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}

# %% too_slow of="right_pipeline"
"""Wrong: under the cap, with a learning rate that reaches nothing."""

# -recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
# +recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.0001}

# %% too_fast of="right_pipeline"
"""Wrong: a learning rate at which Adam jumps about."""

# -recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
# +recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.2}

# %% wrong_world of="right_pipeline"
"""Wrong: a mesh of eight ranks."""

# -recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
# +recipe = {"pp": 4, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}

# %% unknown_key of="right_pipeline"
"""Wrong: a key that no recipe has."""

# -recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
# +recipe = {"pp": 2, "dp": 2, "ep": 2, "zero_stage": 1, "microbatches": 4, "learning_rate": 0.007}

# %% not_a_dict of="right_pipeline"
"""Wrong: a list of pairs."""

#  recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
# +recipe = list(recipe.items())

# %% right_zero3
"""Different: replicas alone, everything sharded, blocks recomputed."""

recipe = {"zero": 3, "microbatches": 2, "recompute": "full", "learning_rate": 0.007}

# %% reference of="right_zero3"
"""Wrong: the reference as it is."""

# -recipe = {"zero": 3, "microbatches": 2, "recompute": "full", "learning_rate": 0.007}
# +recipe = {"dp": 4}

# %% no_sharding of="right_zero3"
"""Wrong: reaches the loss, and every replica holds all states."""

# -recipe = {"zero": 3, "microbatches": 2, "recompute": "full", "learning_rate": 0.007}
# +recipe = {"zero": 0, "learning_rate": 0.007}

# %% states_alone of="right_zero3"
"""Wrong: cuts the states, and keeps all activations."""

# -recipe = {"zero": 3, "microbatches": 2, "recompute": "full", "learning_rate": 0.007}
# +recipe = {"zero": 1, "learning_rate": 0.007}
