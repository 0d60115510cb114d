"""A number of a million digits.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: number that is too long
"""


def hand_in(path, notebook):
    path.write_text('{"cells": [], "nbformat": ' + "9" * 1_000_000 + "}")
