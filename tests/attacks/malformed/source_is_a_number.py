"""A cell whose source is a number.

catalogue: G08
exercise: week01.naive-bill
points: 0
sentence: source is not text
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = 602
    path.write_text(json.dumps(notebook))
