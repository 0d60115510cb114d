"""Week 12, one file an exercise: experts that are spread over ranks, and rows that travel to them and back."""
