"""An empty file.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: JSON error
"""


def hand_in(path, notebook):
    path.write_bytes(b"")
