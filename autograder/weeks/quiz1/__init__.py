"""Quiz 1, after week 6: ten numbers from weeks 1 to 6."""
