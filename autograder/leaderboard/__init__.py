"""The board of week 15: how fast each recipe is beside the reference, timed here, merged from files by instructors."""
