"""A format version that does not exist, and keys that nobody knows.

catalogue: G08
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    path.write_text(json.dumps(notebook | {"nbformat_minor": 99, "extra": {"a": 1}}))
