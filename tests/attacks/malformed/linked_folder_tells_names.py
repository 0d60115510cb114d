"""A folder that is a link to one without the notebook: the names of what lies there would stand in the feedback.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: its folder is a link
"""


def hand_in(path, notebook):
    other = path.parent.parent / "exams"
    other.mkdir()
    (other / "final-exam.ipynb").write_text("{}")
    path.parent.rmdir()
    path.parent.symlink_to(other)
