# %% right_closed
"""Different: floats, and a closed form."""


def kv_bill(c, b, s, heads, kv_heads, width):
    block = 4 * b * (s / c) * width
    share = (c - 1) / c
    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]


# %% keys_alone of="right_closed"
"""Wrong: forgets the values."""

# -    block = 4 * b * (s / c) * width
# +    block = 2 * b * (s / c) * width

# %% c_times of="right_closed"
"""Wrong: a block goes round c times."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * kv_heads * c, block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]

# %% whole_sequence of="right_closed"
"""Wrong: each time the whole sequence."""

# -    block = 4 * b * (s / c) * width
# +    block = 4 * b * s * width

# %% all_heads_in_the_ring of="right_closed"
"""Wrong: keys for every head."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]

# %% output_stays of="right_closed"
"""Wrong: Ulysses without its way back."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * kv_heads * (c - 1), block * share * (heads / 2 + kv_heads), (heads + kv_heads) // kv_heads + 1]

# %% own_share_sent of="right_closed"
"""Wrong: a rank's own share of the exchange travels too."""

# -    share = (c - 1) / c
# +    share = 1

# %% equal_is_less of="right_closed"
"""Wrong: calls as many bytes fewer."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads]

# %% ratio_alone of="right_closed"
"""Wrong: c above h / h_kv, without the keys' own share."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), heads // kv_heads + 1]

# %% always_two of="right_closed"
"""Wrong: right where every head has its keys alone."""

# -    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), (heads + kv_heads) // kv_heads + 1]
# +    return [block * kv_heads * (c - 1), block * share * (heads + kv_heads), 3]

# %% right_fractions
"""Different: exact fractions, and the last number by trying."""

from fractions import Fraction
from itertools import count


def kv_bill(c, b, s, heads, kv_heads, width):
    numbers = Fraction(b * s * width, c)
    ring = (c - 1) * 2 * 2 * numbers * kv_heads
    ulysses = Fraction(c - 1, c) * 2 * 2 * numbers * (heads + kv_heads)
    least = next(n for n in count(2) if Fraction(heads + kv_heads, n) < kv_heads)
    return float(ring), float(ulysses), least


# %% batch_forgotten of="right_fractions"
"""Wrong: one sequence."""

# -    numbers = Fraction(b * s * width, c)
# +    numbers = Fraction(s * width, c)

# %% float32 of="right_fractions"
"""Wrong: four bytes for a number."""

# -    numbers = Fraction(b * s * width, c)
# +    numbers = 2 * Fraction(b * s * width, c)
