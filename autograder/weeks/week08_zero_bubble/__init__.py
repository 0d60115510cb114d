"""Week 8: interleaving, the backward in two halves, zero-bubble schedules; one file per exercise, in notebook order."""
