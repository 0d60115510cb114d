"""The same key twice in one object, so that two readers may see two notebooks.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: naive_all_reduce_bill() is not defined
"""


def hand_in(path, notebook):
    text = json.dumps(notebook).replace('"source": ', '"source": "def other(): pass", "source": ', 1)
    text = text.replace('"metadata": {"nbgrader"', '"source": "x = 1", "metadata": {"nbgrader"', 1)
    path.write_text(text)
