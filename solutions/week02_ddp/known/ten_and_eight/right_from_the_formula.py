"""Different: computed."""


def ten_and_eight():
    return 10 / 18, 10 / (10 + max(0, 8 - 20 / 3))
