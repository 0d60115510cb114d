"""Marks that claim a thousand points: only the text of cells is read.

catalogue: E06
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["nbgrader"] |= {"points": 1000, "grade": False, "locked": False, "solution": True}
    path.write_text(json.dumps(notebook))
