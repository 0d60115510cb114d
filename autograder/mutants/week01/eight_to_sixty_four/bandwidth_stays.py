"""Wrong: takes the bandwidth term for constant."""


def eight_to_sixty_four():
    return 1.0, 9.0
