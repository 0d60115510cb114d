"""Audit a verdict, reproduce it, and find suspiciously similar answers."""
