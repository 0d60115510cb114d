"""UTF-16 with a mark of byte order.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: JSON error
"""


def hand_in(path, notebook):
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(notebook).encode("utf-8")[:-40] + bytes(40))
