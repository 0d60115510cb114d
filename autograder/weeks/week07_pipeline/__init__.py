"""Week 7: stages, messages between neighbors, GPipe and 1F1B as data. One file per exercise."""
