"""A page about a class: points per exercise, the most common mistakes, and how long grading took."""
