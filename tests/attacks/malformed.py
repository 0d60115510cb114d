# %% a_folder
"""A folder with the notebook's name.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not a regular file
"""


def hand_in(path, notebook):
    path.mkdir()


# %% answer_as_markdown
"""The answer's cell turned into markdown: its text is read all the same.

catalogue: G11
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    notebook["cells"][0]["cell_type"] = "markdown"
    path.write_text(json.dumps(notebook))


# %% binary
"""Random bytes.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not UTF-8
"""


def hand_in(path, notebook):
    path.write_bytes(bytes(range(255, 0, -1)) * 40)


# %% byte_order_and_zeros
"""UTF-16 with a mark of byte order.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: JSON error
"""


def hand_in(path, notebook):
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(notebook).encode("utf-8")[:-40] + bytes(40))


# %% cell_marks_of_other_types
"""Marks that are lists, numbers and nothing.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: another cell was judged
"""


def hand_in(path, notebook):
    notebook["cells"][0]["metadata"] = {"nbgrader": [1, 2]}
    notebook["cells"][1]["metadata"] = None
    path.write_text(json.dumps(notebook))


# %% cells_not_a_list
"""Cells that are no list.

catalogue: G08
exercise: week01.naive-bill
points: 0
sentence: no list of cells
"""


def hand_in(path, notebook):
    path.write_text(json.dumps(notebook | {"cells": {"0": notebook["cells"][0]}}))


# %% deep_json
"""JSON nested a million levels deep.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: nested more than
"""


def hand_in(path, notebook):
    path.write_text("[" * 1_000_000)


# %% duplicate_keys
"""The same key twice in one object, so that two readers may see two notebooks.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: naive_all_reduce_bill() is not defined
"""


def hand_in(path, notebook):
    text = json.dumps(notebook).replace('"source": ', '"source": "def other(): pass", "source": ', 1)
    text = text.replace('"metadata": {"nbgrader"', '"source": "x = 1", "metadata": {"nbgrader"', 1)
    path.write_text(text)


# %% duplicated_test_cell
"""The test cell twice, and the answer twice: the last answer counts.

catalogue: G03
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    answer, test = notebook["cells"]
    wrong = answer | {"source": "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 0, 0\n"}
    notebook["cells"] = [wrong, test, answer, test]
    path.write_text(json.dumps(notebook))


# %% empty_file
"""An empty file.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: JSON error
"""


def hand_in(path, notebook):
    path.write_bytes(b"")


# %% exercise_cell_defines_later_ones
"""An extra cell defines the exercise's function wrongly: the exercise's own cell runs last and counts.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    source = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 0, 0\n"
    notebook["cells"].append({"cell_type": "code", "source": source, "metadata": {}, "outputs": []})
    path.write_text(json.dumps(notebook))


# %% extra_cell_that_exits
"""A cell before the answer ends the process as it is defined.

catalogue: B02
exercise: week01.naive-bill
points: 0
sentence: exit code
"""


def hand_in(path, notebook):
    source = "import os\n\nclass naive_all_reduce_bill:\n    os._exit(0)\n"
    notebook["cells"].insert(0, {"cell_type": "code", "source": source, "metadata": {}, "outputs": []})
    path.write_text(json.dumps(notebook))


# %% grade_id_renamed
"""The answer's cell under another name.

catalogue: E08
exercise: week01.naive-bill
points: 0
sentence: zzz
"""


def hand_in(path, notebook):
    notebook["cells"][0]["metadata"]["nbgrader"]["grade_id"] = "zzz"
    path.write_text(json.dumps(notebook))


# %% huge_number
"""A number of a million digits.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: number that is too long
"""


def hand_in(path, notebook):
    path.write_text('{"cells": [], "nbformat": ' + "9" * 1_000_000 + "}")


# %% ids_swapped
"""The names of two cells swapped: the right answer is found in the other one.

catalogue: E08
exercise: week01.naive-bill
points: 1
sentence: was judged
"""


def hand_in(path, notebook):
    marks = [cell["metadata"]["nbgrader"] for cell in notebook["cells"]]
    marks[0]["grade_id"], marks[1]["grade_id"] = "week01-exchange", "week01-naive-bill"
    path.write_text(json.dumps(notebook))


# %% json_bomb
"""A notebook of many megabytes.

catalogue: F10
exercise: week01.naive-bill
points: 0
sentence: at most 5 MB
"""


def hand_in(path, notebook):
    notebook["cells"][0]["outputs"] = [{"output_type": "stream", "text": "x" * 30_000_000}]
    path.write_text(json.dumps(notebook))


# %% link_to_the_solution
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


# %% linked_folder
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


# %% linked_folder_tells_names
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


# %% locked_test_edited
"""An edited test cell beside a wrong answer: submitted tests are never used.

catalogue: E05
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 0, 0\n"
    notebook["cells"][1]["source"] = "pass"
    path.write_text(json.dumps(notebook))


# %% lone_surrogate
"""Text that no file can hold.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not Python
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = "a\ud800 = 1\n" + notebook["cells"][0]["source"]
    path.write_text(json.dumps(notebook))


# %% markup_in_names
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


# %% named_pipe
"""A named pipe: a program that reads it would wait.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: not a regular file
"""


def hand_in(path, notebook):
    os.mkfifo(path)


# %% not_json
"""Half a notebook.

catalogue: G01
exercise: week01.naive-bill
points: 0
sentence: JSON error
"""


def hand_in(path, notebook):
    path.write_text('{"cells": [')


# %% not_submitted
"""A folder without a notebook.

catalogue: G13
exercise: week01.naive-bill
points: 0
sentence: Not submitted
"""


def hand_in(path, notebook):
    (path.parent / "thoughts.txt").write_text("later")


# %% outputs_that_pretend
"""Outputs that say the check was passed: outputs are not read.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: is not the number of messages
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return 0, 0\n"
    result = {"output_type": "execute_result", "data": {"text/plain": "1.0"}, "metadata": {}, "execution_count": 1}
    notebook["cells"][1]["outputs"] = [result]
    path.write_text(json.dumps(notebook))


# %% points_in_metadata
"""Marks that claim a thousand points: only the text of cells is read.

catalogue: E06
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    for cell in notebook["cells"]:
        cell["metadata"]["nbgrader"] |= {"points": 1000, "grade": False, "locked": False, "solution": True}
    path.write_text(json.dumps(notebook))


# %% schema_version
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


# %% source_is_a_number
"""A cell whose source is a number.

catalogue: G08
exercise: week01.naive-bill
points: 0
sentence: source is not text
"""


def hand_in(path, notebook):
    notebook["cells"][0]["source"] = 602
    path.write_text(json.dumps(notebook))


# %% sparse_file
"""A file of a terabyte that takes no room on the disk.

catalogue: F10
exercise: week01.naive-bill
points: 0
sentence: at most 5 MB
"""


def hand_in(path, notebook):
    with path.open("wb") as file:
        file.truncate(1 << 40)


# %% test_cell_deleted
"""The test cell deleted.

catalogue: E07
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    notebook["cells"].pop()
    path.write_text(json.dumps(notebook))


# %% thousand_extra_cells
"""A thousand cells of the student's own, each failing: they are no part of the answer.

catalogue: own
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    extra = {"cell_type": "code", "source": "1 / 0", "metadata": {}, "outputs": []}
    notebook["cells"] = [extra] * 1000 + notebook["cells"]
    path.write_text(json.dumps(notebook))


# %% two_notebooks
"""Two notebooks with other names: none is guessed, both are named.

catalogue: G14
exercise: week01.naive-bill
points: 0
sentence: several contain its cells
"""


def hand_in(path, notebook):
    for name in ("week01 (1).ipynb", "week01 final.ipynb"):
        (path.parent / name).write_text(json.dumps(notebook))


# %% unknown_kernel
"""Names a kernel that runs a command.

catalogue: G06
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    notebook["metadata"]["kernelspec"] = {"name": "../../bin/sh", "display_name": "x", "language": "fortran"}
    path.write_text(json.dumps(notebook))


# %% version_3
"""A notebook in the format of 2014.

catalogue: G07
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    cells = [cell | {"input": cell.pop("source"), "language": "python"} for cell in notebook["cells"]]
    path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}))


# %% version_99
"""A format version that does not exist, and keys that nobody knows.

catalogue: G08
exercise: week01.naive-bill
points: 1
sentence: Correct
"""


def hand_in(path, notebook):
    path.write_text(json.dumps(notebook | {"nbformat_minor": 99, "extra": {"a": 1}}))


# %% written_answer_with_script
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
