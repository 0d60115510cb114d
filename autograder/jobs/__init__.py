"""The untrusted side: the only part of the autograder that exists inside the sandbox, next to a student's code.

It holds no expected value, no case of another student and no secret. What leaves it is plain data, and a claim.
"""
