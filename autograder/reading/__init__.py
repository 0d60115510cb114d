"""Read a submission as data, without running any of it."""
