"""Text that no file can hold.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not Python
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = "a\ud800 = 1\n" + notebook["cells"][0]["source"]
    path.write_text(json.dumps(notebook))
