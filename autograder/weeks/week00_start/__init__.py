"""Week 0: one all-reduce, to see that everything works."""
