"""Two notebooks with other names: none is guessed, both are named.

catalogue: G14
exercise: week01.naive-bill
points: 0
sentence: several hold its cells
"""


def hand_in(path, notebook):
    for name in ("week01 (1).ipynb", "week01 final.ipynb"):
        (path.parent / name).write_text(json.dumps(notebook))
