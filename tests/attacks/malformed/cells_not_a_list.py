"""Cells that are no list.

catalogue: G08
exercise: week01.naive-bill
points: 0
sentence: no list of cells
"""


def hand_in(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": {"0": notebook["cells"][0]}}))
