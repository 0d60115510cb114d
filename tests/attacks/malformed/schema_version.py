"""A version of nbgrader's marks that does not exist.

catalogue: G04
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["nbgrader"]["schema_version"] = 99
    notebook["cells"][1]["metadata"]["nbgrader"].pop("schema_version")
    path.write_text(json.dumps(notebook))
