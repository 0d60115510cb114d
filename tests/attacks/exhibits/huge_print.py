"""Prints a gigabyte.

sentence: did not end by itself
"""

for _ in range(1000):
    print("x" * 1_000_000)
