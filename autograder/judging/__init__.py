"""Run answers in a sandbox, compare the results with expected values, and give points."""
