"""Week 7: stages, messages between neighbours, GPipe and 1F1B as data; one file an exercise, in notebook order."""

from autograder.checks.week07 import (
    bubble,
    capped,
    gpipe,
    neighbours,
    one_f_one_b,
    reading,
    smallest,
    split,
    step,
)

CHECKS = (
    bubble.CHECK,
    split.CHECK,
    neighbours.CHECK,
    gpipe.CHECK,
    step.CHECK,
    one_f_one_b.CHECK,
    reading.CHECK,
    capped.CHECK,
    smallest.CHECK,
)
