"""A named pipe, which whoever reads it would wait for.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not a regular file
"""


def hand_in(path, notebook):
    os.mkfifo(path)
