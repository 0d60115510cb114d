"""Week 13: DualPipe, its two copies, its V, and overlapped pairs; one file per exercise, in the notebook's order."""
