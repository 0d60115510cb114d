"""Wrong: guesses that both terms double."""


def eight_to_sixty_four():
    return 2.0, 2.0
