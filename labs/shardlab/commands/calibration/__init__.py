"""Measure the machine at hand: rates of one rank, links between ranks, and what ranks that share cores lose."""
