"""Measurements beside their peers, and the bars that the project holds: `python -m benchmarks [NAME...] [--json]`."""
