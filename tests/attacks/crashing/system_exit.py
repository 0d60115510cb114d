"""Leaves with sys.exit inside the function.

catalogue: B03
exercise: week00.first-all-reduce
points: 0
sentence: SystemExit
"""

import sys


def total_of(tensor, *, group):
    sys.exit(0)
