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
