"""The answer's cell under another name.

catalogue: E08
exercise: week01.naive-bill
points: 0
sentence: zzz
"""


def hand_in(path, notebook):
    notebook["cells"][0]["metadata"]["nbgrader"]["grade_id"] = "zzz"
    path.write_text(json.dumps(notebook))
