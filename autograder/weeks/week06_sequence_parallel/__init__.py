"""Week 6, one file an exercise: a sequence split over ranks, its two operators, and activations computed again."""
