"""Start ranks, collect their results, and explain what went wrong in one message."""
