"""A folder without a notebook.

catalogue: G13
exercise: week01.naive-bill
points: 0
sentence: Not submitted
"""


def hand_in(path, notebook):
    (path.parent / "thoughts.txt").write_text("later")
