"""Different: the four numbers."""


def hundred_million_on_two():
    return 1.6, 1.0, 0.9, 0.8
