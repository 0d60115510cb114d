"""The names of two cells swapped: the right answer is found in the other one.

catalogue: E08
exercise: week01.naive-bill
points: 1
sentence: was judged
"""


def hand_in(path, notebook):
    marks = [cell["metadata"]["nbgrader"] for cell in notebook["cells"]]
    marks[0]["grade_id"], marks[1]["grade_id"] = "week01-exchange", "week01-naive-bill"
    path.write_text(json.dumps(notebook))
