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
