"""Week 6: a sequence split over ranks, its two operators, and recomputed activations; one file per exercise."""
