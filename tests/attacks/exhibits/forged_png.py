"""Puts a ready-made file where raw bytes are due.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown["pictures"].append(
    {"width": 2, "height": 2, "rgb": b"\x89PNG\r\n\x1a\n<script>window.hacked = 1</script>"}
)
