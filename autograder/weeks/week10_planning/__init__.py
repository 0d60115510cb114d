"""Week 10, one file per exercise: a planner by hand, a calculator with real errors, stages by dynamic programming."""
