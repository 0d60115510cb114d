"""Week 2: data parallelism, its mean, buckets and overlap, and compressed gradients; one file an exercise.

Sums of small whole numbers are exact; means and float sums are compared within the tolerance that each file names.
"""

from autograder.checks.week02 import (
    average,
    buckets,
    ddp_backward,
    efficiency,
    reading,
    ten_and_eight,
    top_k,
    unused,
)

CHECKS = (
    efficiency.CHECK,
    average.CHECK,
    buckets.CHECK,
    ddp_backward.CHECK,
    unused.CHECK,
    reading.CHECK,
    top_k.CHECK,
    ten_and_eight.CHECK,
)
