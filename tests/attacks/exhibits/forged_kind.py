"""Hands in texts and numbers of other kinds where pictures are due.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown.update(
    pictures=["<script>", None, {"width": True, "height": -1, "rgb": "x"}, {"width": 1.0, "height": 1, "rgb": b"abc"}],
    left_out="many",
    error=["<script>"],
)
