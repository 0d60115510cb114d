"""Week 1: messages, ring collectives, their bytes and seconds; one file per exercise.

Tensors are compared exactly: inputs are small whole numbers, whose sums are exact in every order and dtype.
"""
