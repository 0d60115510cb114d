"""Week 1: messages, ring collectives, their bytes and seconds; one file an exercise, in the notebook's order.

Tensors are compared exactly: inputs are small whole numbers, whose sums are exact in every order and dtype.
"""

from autograder.checks.week01 import (
    all_reduce,
    eight_to_sixty_four,
    exchange,
    hierarchical,
    naive_bill,
    reading,
    reduce_scatter,
    same_order,
    seconds,
)

CHECKS = (
    naive_bill.CHECK,
    exchange.CHECK,
    reduce_scatter.CHECK,
    all_reduce.CHECK,
    same_order.CHECK,
    seconds.CHECK,
    reading.CHECK,
    hierarchical.CHECK,
    eight_to_sixty_four.CHECK,
)
