"""Start and stop the sandboxes in which student code runs."""
