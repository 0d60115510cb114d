"""Week 2: data parallelism, its mean, buckets and overlap, and compressed gradients; one file an exercise.

Sums of small whole numbers are exact; means and float sums are compared within the tolerance that each file names.
"""
