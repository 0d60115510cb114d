"""One page about a class: points by exercise, what most wrong answers have in common, and how long grading took."""
