"""The checks of week 11: one file per exercise."""
