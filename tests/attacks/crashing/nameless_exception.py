"""Raises an exception whose class has no name, no module and lines that are not there.

catalogue: own
exercise: week01.naive-bill
points: 0
sentence: raised an exception
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    kind = type("\n\n\x1b[31m", (Exception,), {"__module__": None})
    code = compile("def f():\n  raise kind('no line')\n", "/no/such/file\n\n", "exec")
    space = {"kind": kind}
    exec(code, space)
    space["f"]()
