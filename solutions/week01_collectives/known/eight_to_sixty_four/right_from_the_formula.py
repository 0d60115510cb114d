"""Different: both factors from one function of N."""


def eight_to_sixty_four():
    def terms(num_ranks):
        steps = 2 * (num_ranks - 1)
        return steps / num_ranks, steps

    small, large = terms(8), terms(64)
    return large[0] / small[0], large[1] / small[1]
