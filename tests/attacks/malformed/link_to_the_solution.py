"""A symbolic link to somebody else's notebook.

catalogue: D09
exercise: week01.naive-bill
points: 0
sentence: link
"""


def hand_in(path, notebook):
    other = path.parent.parent / "other.ipynb"
    other.write_text(json.dumps(notebook))
    path.symlink_to(other)
