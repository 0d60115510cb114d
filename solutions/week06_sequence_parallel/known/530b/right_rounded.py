"""Different: written down by hand, rounded."""


def layer_of_530b():
    return (8.81e8, 1.783e8, 0.653, 0.00546, 0.3333)
