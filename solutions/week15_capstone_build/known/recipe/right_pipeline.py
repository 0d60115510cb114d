"""Different: two stages, two replicas with half of the experts, sharded Adam, four microbatches."""

recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
