"""Writes start-up files into its home: they are gone when it ends.

catalogue: E10
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import pathlib

startup = pathlib.Path.home() / ".ipython" / "profile_default" / "startup"
if startup.exists():
    raise SystemExit("something was left behind")
startup.mkdir(parents=True)
(startup / "sys602_attack.py").write_text("import os")


def naive_all_reduce_bill(num_ranks, num_bytes):
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
