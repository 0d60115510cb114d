"""Wrong: a backward as long as a forward."""


def ten_and_eight():
    return 10 / 18, 10 / 13
