"""Wrong: from 64 ranks to 8."""


def eight_to_sixty_four():
    return 1.75 / (126 / 64), 14 / 126
