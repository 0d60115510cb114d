"""Week 16, one file an exercise: the numbers of a design document, and the review of changes that look right."""
