"""Write verdicts to files, to the gradebook and to feedback pages."""
