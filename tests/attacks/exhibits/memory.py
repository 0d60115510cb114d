"""Takes all memory that there is.

sentence: -
"""

kept = []
while True:
    kept.append(bytearray(os.urandom(1 << 20)) * 64)
