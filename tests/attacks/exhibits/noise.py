"""Pictures of noise, which no PNG makes small.

sentence: -
"""

import os

from PIL import Image

for _ in range(6):
    display(Image.frombytes("RGB", (1200, 1200), os.urandom(3 * 1200 * 1200)))
