"""Wrong: takes N for N-1 in the number of steps."""


def eight_to_sixty_four():
    return (2 * 63 / 64) / (2 * 7 / 8), 64 / 8
