"""A notebook in the format of 2014.

catalogue: G07
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    cells = [cell | {"input": cell.pop("source"), "language": "python"} for cell in notebook["cells"]]
    path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}))
