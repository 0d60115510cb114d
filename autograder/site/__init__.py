"""The course as a website for offline reading: executed weeks, docs, glossary and search, in English and Chinese."""
