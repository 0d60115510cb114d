"""Returns an object whose pickle runs a command.

catalogue: E03
exercise: week01.naive-bill
points: 0
sentence: Your return value cannot be sent back
"""


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @HONEY@/sys602_attack",)


def naive_all_reduce_bill(num_ranks, num_bytes):
    return Bomb()
