"""Week 3, one file an exercise: bytes of model states, sharded Adam, gradients reduced in the backward."""
