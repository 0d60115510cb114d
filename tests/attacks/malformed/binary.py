"""Random bytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not UTF-8
"""


def hand_in(path, notebook):
    path.write_bytes(bytes(range(255, 0, -1)) * 40)
