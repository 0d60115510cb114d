"""Puts a script into its error, for the feedback page.

catalogue: E13
exercise: week01.naive-bill
points: 0
sentence: RuntimeError
"""


def naive_all_reduce_bill(num_ranks, num_bytes):
    raise RuntimeError("<script>fetch('/formgrader/api/assignments')</script><img src=x onerror=alert(1)>")
