"""Names of cells that are markup for the terminal, the page and the file system.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    for name in ("[/red]", "<img src=x onerror=alert(1)>", "../../../gradebook", "a\nb", "\x1b[2J"):
        marks = {"nbgrader": {"grade_id": name, "solution": True, "schema_version": 3}}
        notebook["cells"].append({"cell_type": "code", "source": "pass", "metadata": marks, "outputs": []})
    path.write_text(json.dumps(notebook))
