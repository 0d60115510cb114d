"""The bug museum, `docs/bug-museum.md`: what its exhibits say, and code that measures their numbers anew."""
