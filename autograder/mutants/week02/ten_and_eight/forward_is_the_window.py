"""Wrong: the forward as the window."""


def ten_and_eight():
    return 10 / 18, 10 / (18 - 10 / 3)
