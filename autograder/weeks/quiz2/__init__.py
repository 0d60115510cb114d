"""Quiz 2, after week 12: ten numbers from weeks 7 to 12, two of them from the first weeks."""
