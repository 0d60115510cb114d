"""Wrong: the same without and with overlap."""


def ten_and_eight():
    return 10 / 18, 10 / 18
