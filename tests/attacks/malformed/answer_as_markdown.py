"""The answer's cell turned into markdown: its text is read all the same.

catalogue: G11
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    notebook["cells"][0]["cell_type"] = "markdown"
    path.write_text(json.dumps(notebook))
