"""Week 14, one file an exercise: a sequence split over ranks inside attention, and what it costs to look back."""
