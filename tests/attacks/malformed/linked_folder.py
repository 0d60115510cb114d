"""The week's folder is a link to somebody else's.

catalogue: D09
exercise: week01.naive-bill
points: 0
sentence: link
"""


def hand_in(path, notebook):
    other = path.parent.parent / "other"
    other.mkdir()
    (other / path.name).write_text(json.dumps(notebook))
    path.parent.rmdir()
    path.parent.symlink_to(other)
