"""Week 13: DualPipe, its two copies, its V, and overlapped pairs; one file an exercise, in the notebook's order."""

from autograder.checks.week13 import (
    bill,
    copies,
    dualpipe,
    eight_steps,
    neighbours,
    one_copy,
    pair_seconds,
    reading,
    slots,
)

CHECKS = (
    bill.CHECK,
    eight_steps.CHECK,
    slots.CHECK,
    dualpipe.CHECK,
    copies.CHECK,
    neighbours.CHECK,
    reading.CHECK,
    one_copy.CHECK,
    pair_seconds.CHECK,
)
