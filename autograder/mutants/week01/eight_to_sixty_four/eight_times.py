"""Wrong: eight times the ranks is taken for eight times the bytes."""


def eight_to_sixty_four():
    return 8.0, 8.0
