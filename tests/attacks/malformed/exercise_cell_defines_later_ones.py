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
