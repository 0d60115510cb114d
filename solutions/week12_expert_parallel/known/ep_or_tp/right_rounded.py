"""Different: a tuple of rounded numbers."""


def ep_or_tp():
    return 88.08e6, 234.9e6, 9, 3072, 176
