"""Week 14, one file per exercise: a sequence split over ranks inside attention, and its costs."""
