"""Verdicts into files, the gradebook and feedback pages."""
