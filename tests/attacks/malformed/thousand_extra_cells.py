"""A thousand cells of the student's own, each failing: they are no part of the answer.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    extra = {"cell_type": "code", "source": "1 / 0", "metadata": {}, "outputs": []}
    notebook["cells"] = [extra] * 1000 + notebook["cells"]
    path.write_text(json.dumps(notebook))
