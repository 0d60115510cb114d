"""Benchmarks against peers, and the targets they must meet: `python -m benchmarks [NAME...] [--json]`."""
