"""Week 13: DualPipe, its two copies, its V, and overlapped pairs; one file an exercise, in the notebook's order."""
