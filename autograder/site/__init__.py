"""The course as pages to read offline: executed weeks, docs, glossary and search, in English and Chinese."""
