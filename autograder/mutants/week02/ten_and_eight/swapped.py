"""Wrong: the wrong way round."""


def ten_and_eight():
    return 15 / 17, 5 / 9
