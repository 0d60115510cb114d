"""Week 3, one file an exercise: bytes of model states, sharded Adam, gradients reduced in the backward."""

from autograder.checks.week03 import clip, flatten, reading, state_bytes, tied, two_gpus, zero1, zero2

CHECKS = (
    state_bytes.CHECK,
    flatten.CHECK,
    zero1.CHECK,
    zero2.CHECK,
    clip.CHECK,
    reading.CHECK,
    tied.CHECK,
    two_gpus.CHECK,
)
