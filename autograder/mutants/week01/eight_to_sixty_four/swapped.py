"""Wrong: latency factor first."""


def eight_to_sixty_four():
    return 126 / 14, (2 * 63 / 64) / (2 * 7 / 8)
