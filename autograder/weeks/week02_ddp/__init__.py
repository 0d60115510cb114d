"""Week 2: data parallelism (mean, buckets, overlap) and compressed gradients; one file per exercise.

Sums of small whole numbers are exact. Means and float sums are compared within the tolerance given in each file.
"""
