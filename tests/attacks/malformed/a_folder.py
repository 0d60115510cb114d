"""A folder with the notebook's name.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not a regular file
"""


def hand_in(path, notebook):
    path.mkdir()
