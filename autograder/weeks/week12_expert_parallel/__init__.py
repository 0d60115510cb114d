"""Week 12, one file per exercise: experts distributed over ranks, and rows sent to them and back."""
