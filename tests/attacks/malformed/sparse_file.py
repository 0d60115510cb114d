"""A file of a terabyte that takes no room on the disk.

catalogue: F10
exercise: week01.naive-bill
points: 0
sentence: at most 5 MB
"""


def hand_in(path, notebook):
    with path.open("wb") as file:
        file.truncate(1 << 40)
