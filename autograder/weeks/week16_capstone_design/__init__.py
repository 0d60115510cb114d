"""Week 16: the numbers of a design document, and a review of changes that look right. One file per exercise."""
