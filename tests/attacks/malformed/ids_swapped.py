"""The names of two cells swapped.

catalogue: E08
exercise: week01.naive-bill
points: 0
sentence: fails when it is run
"""


def hand_in(path, notebook):
    marks = [cell["metadata"]["nbgrader"] for cell in notebook["cells"]]
    marks[0]["grade_id"], marks[1]["grade_id"] = "week01-exchange", "week01-naive-bill"
    path.write_text(json.dumps(notebook))
