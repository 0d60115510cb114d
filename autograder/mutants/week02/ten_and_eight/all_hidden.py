"""Wrong: all compute as the window: the forward hides nothing, for there is no gradient yet."""


def ten_and_eight():
    return 10 / 18, 1.0
