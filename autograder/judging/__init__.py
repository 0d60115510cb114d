"""Run answers in a sandbox, compare, give points."""
