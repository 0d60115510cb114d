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
