"""Layouts enumerated, pruned and ranked; why the best wins; layers cut into stages."""
