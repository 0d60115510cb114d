"""A notebook of many megabytes.

catalogue: F10
exercise: week01.naive-bill
points: 0
sentence: at most 5 MB
"""


def hand_in(path, notebook):
    notebook["cells"][0]["outputs"] = [{"output_type": "stream", "text": "x" * 30_000_000}]
    path.write_text(json.dumps(notebook))
