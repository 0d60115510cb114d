"""The test cell deleted.

catalogue: E07
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    notebook["cells"].pop()
    path.write_text(json.dumps(notebook))
