"""Wrong: what is lost."""


def ten_and_eight():
    return 8 / 18, 2 / 17
