"""Hands in, past our own code, a picture whose bytes do not fit its size.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown["pictures"] += [
    {"width": 1200, "height": 1200, "rgb": b"\x00"},
    {"width": 1 << 40, "height": 1 << 40, "rgb": b""},
]
