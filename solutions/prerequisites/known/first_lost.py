# %% right_by_spacing
"""Different: looks for the first power of two above which neighbors are two apart."""


def first_lost(fraction_bits):
    power = 1
    while power / 2**fraction_bits < 2:
        power *= 2
    return power


# %% one_bit_less
"""Wrong: forgets the leading one that is not stored."""


def first_lost(fraction_bits):
    return 2**fraction_bits


# %% one_too_late of="one_bit_less"
"""Wrong: the first whole number that does not exist, and not the one before it."""

# -    return 2**fraction_bits
# +    return 2 ** (fraction_bits + 1) + 1

# %% bfloat16_only of="one_bit_less"
"""Wrong: the constant of one format."""

# -    return 2**fraction_bits
# +    return 256

# %% times_two of="one_bit_less"
"""Wrong: one bit too many."""

# -    return 2**fraction_bits
# +    return 2 ** (fraction_bits + 2)

# %% right_page from="page"
"""Different: the page."""
