"""Week 3: bytes of model states, sharded Adam, gradients reduced in the backward; one file per exercise."""
