"""Different: floats, and a closed form."""


def kv_bill(c, b, s, heads, kv_heads, width):
    block = 4 * b * (s / c) * width
    share = (c - 1) / c
    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
