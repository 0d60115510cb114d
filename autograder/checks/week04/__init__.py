"""Week 4: weights gathered, used and freed; its order, bytes, peak and precision; a file an exercise, in page order."""

from autograder.checks.week04 import ethernet, n_times, plan, quantized_gather, reading, reshard, step, tied

CHECKS = (
    n_times.CHECK,
    plan.CHECK,
    step.CHECK,
    tied.CHECK,
    quantized_gather.CHECK,
    reading.CHECK,
    reshard.CHECK,
    ethernet.CHECK,
)
