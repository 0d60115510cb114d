"""Week 10, one file an exercise: a planner by hand, a calculator with real errors, stages by dynamic programming."""

from autograder.checks.week10 import calculator, cut, fits, fitting, layouts, ranked, reading, trillion

CHECKS = (
    fits.CHECK,
    layouts.CHECK,
    fitting.CHECK,
    ranked.CHECK,
    calculator.CHECK,
    reading.CHECK,
    cut.CHECK,
    trillion.CHECK,
)
