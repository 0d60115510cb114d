"""Leaves without a word.

sentence: did not end by itself
"""

import os

print("before", flush=True)
os._exit(0)
