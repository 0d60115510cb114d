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
