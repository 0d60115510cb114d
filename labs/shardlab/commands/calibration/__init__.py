"""Measure this machine: rates of one rank, links between ranks, and the slowdown of ranks that share cores."""
