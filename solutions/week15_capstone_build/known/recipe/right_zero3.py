"""Different: replicas alone, everything sharded, blocks recomputed."""

recipe = {"zero": 3, "microbatches": 2, "recompute": "full", "learning_rate": 0.007}
