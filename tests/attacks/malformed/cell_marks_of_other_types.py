"""Marks that are lists, numbers and nothing.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: cell of your own
"""


def hand_in(path, notebook):
    notebook["cells"][0]["metadata"] = {"nbgrader": [1, 2]}
    notebook["cells"][1]["metadata"] = None
    path.write_text(json.dumps(notebook))
