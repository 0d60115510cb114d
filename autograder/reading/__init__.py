"""Read submissions as data, without running any of their code."""
