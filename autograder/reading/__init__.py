"""Read a submission as data; nothing of it runs."""
