"""Prints, then never ends.

sentence: did not end by itself
timeout: 3
"""

print("before")
while True:
    pass
