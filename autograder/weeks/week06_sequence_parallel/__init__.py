"""Week 6, one file per exercise: a sequence split over ranks, its two operators, and activations computed again."""
