# %% endless_pictures
"""Shows pictures forever.

sentence: did not finish
timeout: 4
"""

import matplotlib.pyplot as plt

while True:
    plt.figure(figsize=(1, 1))
    plt.show()


# %% exits
"""Leaves without a word.

sentence: did not finish
"""

import os

print("before", flush=True)
os._exit(0)


# %% figure_flood
"""Opens a thousand figures.

sentence: Only the first 6 pictures
"""

import matplotlib.pyplot as plt

plt.rcParams["figure.max_open_warning"] = 0
for number in range(1000):
    plt.figure(figsize=(1, 1))


# %% forged_kind
"""Hands in texts and numbers of other kinds where pictures are due.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown.update(
    pictures=["<script>", None, {"width": True, "height": -1, "rgb": "x"}, {"width": 1.0, "height": 1, "rgb": b"abc"}],
    left_out="many",
    error=["<script>"],
)


# %% forged_png
"""Puts a ready-made file where raw bytes are due.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown["pictures"].append(
    {"width": 2, "height": 2, "rgb": b"\x89PNG\r\n\x1a\n<script>window.hacked = 1</script>"}
)


# %% forged_size
"""Hands in, past our own code, a picture whose bytes do not fit its size.

sentence: left out
"""

from autograder.jobs import canvas

canvas.shown["pictures"] += [
    {"width": 1200, "height": 1200, "rgb": b"\x00"},
    {"width": 1 << 40, "height": 1 << 40, "rgb": b""},
]


# %% hang
"""Prints, then never ends.

sentence: did not finish
timeout: 3
"""

print("before")
while True:
    pass


# %% huge_figure
"""A figure of a kilometre.

sentence: -
"""

import matplotlib.pyplot as plt

plt.figure(figsize=(40_000, 40_000))
plt.show()


# %% huge_print
"""Prints a gigabyte.

sentence: did not finish
"""

for _ in range(1000):
    print("x" * 1_000_000)


# %% impostor
"""A thing that says of itself that it is a figure, and writes a page.

sentence: UnidentifiedImageError
"""


class Figure:
    def get_size_inches(self):
        return 4, 3

    def savefig(self, target, **_):
        target.write(b"<script>window.hacked = 1</script>")


Figure()


# %% memory
"""Takes all memory that there is.

sentence: -
"""

kept = []
while True:
    kept.append(bytearray(os.urandom(1 << 20)) * 64)


# %% noise
"""Pictures of noise, which no PNG makes small.

sentence: -
"""

import os

from PIL import Image

for _ in range(6):
    display(Image.frombytes("RGB", (1200, 1200), os.urandom(3 * 1200 * 1200)))


# %% own_backend
"""Replaces our backend by one whose figures are markup.

sentence: -
"""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.savefig("/tmp/plot.svg")
print(open("/tmp/plot.svg").read())
plt.show()


# %% png_bomb
"""A picture of 60,000 by 60,000 pixels in a few kilobytes: decoding it takes eleven gigabytes.

sentence: DecompressionBomb
"""

import struct
import zlib


class Bomb:
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1 << 24))) + chunk(b"IEND", b"")


Bomb()


# %% reads_the_host
"""Looks for the course, the verdicts and a secret, and prints what it finds.

sentence: nothing of it is there
"""

import os

found = [
    path
    for path in ("@ROOT@/autograder/grading/grade.py", "@ROOT@/solutions", "@HONEY@/gradebook.db")
    if os.path.exists(path)
]
print(found or "nothing of it is there", os.environ.get("SYS602_SECRET", ""))


# %% script_tags
"""Prints markup, and shows objects that call themselves HTML, JavaScript and SVG.

sentence: -
"""


class Page:
    def _repr_html_(self):
        return "<script>window.hacked = 1</script>"

    def _repr_javascript_(self):
        return "window.hacked = 1"

    def _repr_svg_(self):
        return "<svg onload='window.hacked = 1'></svg>"

    def _repr_mimebundle_(self, **_):
        return {"text/html": "<script>window.hacked = 1</script>"}


print(
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\x1b]8;;javascript:window.hacked=1\x07link"
)
display(Page())
Page()
