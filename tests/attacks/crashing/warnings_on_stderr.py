"""A right answer that warns and prints a lot on standard error: that costs no points.

catalogue: B10
exercise: week01.naive-bill
points: 1
sentence: Correct
cases: all
"""

import sys
import warnings


def naive_all_reduce_bill(num_ranks, num_bytes):
    warnings.warn("OMP_NUM_THREADS is not set", stacklevel=1)
    print("NNPACK is not there\n" * 1000, file=sys.stderr)
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
