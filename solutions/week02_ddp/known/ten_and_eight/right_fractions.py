"""Different: fractions."""


def ten_and_eight():
    return 5 / 9, 15 / 17
