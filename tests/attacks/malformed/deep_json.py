"""JSON nested a million levels deep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: nested more than
"""


def hand_in(path, notebook):
    path.write_text("[" * 1_000_000)
