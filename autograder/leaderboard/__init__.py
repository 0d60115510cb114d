"""The board of week 15: recipe speeds relative to the reference, timed here, merged from instructors' files."""
