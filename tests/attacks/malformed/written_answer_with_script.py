"""A written answer with a script, for the instructor's browser.

catalogue: E13
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    text = "<script>fetch('/formgrader/api/assignments')</script> [x](javascript:alert(1))"
    marks = {"nbgrader": {"grade_id": "week01-interview", "solution": True, "grade": True, "schema_version": 3}}
    notebook["cells"].append({"cell_type": "markdown", "source": text, "metadata": marks})
    path.write_text(json.dumps(notebook))
