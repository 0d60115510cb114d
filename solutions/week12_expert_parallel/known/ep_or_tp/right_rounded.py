"""Different: a tuple of rounded numbers."""


def ep_or_tp():
    return 176.2e6, 234.9e6, 9, 3072, 176
