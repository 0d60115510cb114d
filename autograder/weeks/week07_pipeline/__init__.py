"""Week 7: stages, messages between neighbours, GPipe and 1F1B as data; one file an exercise, in notebook order."""
