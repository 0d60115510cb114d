"""The bug museum, `docs/bug-museum.md`: the texts of its exhibits, and code that measures their numbers again."""
