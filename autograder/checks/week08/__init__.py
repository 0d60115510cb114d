"""Week 8: interleaving, the backward in two halves, zero-bubble schedules; one file an exercise, in notebook order."""

from autograder.checks.week08 import (
    bubbles,
    hooks,
    interleaved,
    reading,
    split_backward,
    v_schedule,
    wins,
    zb_h1,
)

CHECKS = (
    bubbles.CHECK,
    interleaved.CHECK,
    split_backward.CHECK,
    hooks.CHECK,
    zb_h1.CHECK,
    reading.CHECK,
    v_schedule.CHECK,
    wins.CHECK,
)
