"""The untrusted side: the only part of the autograder inside the sandbox, next to a student's code.

It holds no expected values, no other student's cases and no secrets. It sends out plain data, which is only a claim.
"""
