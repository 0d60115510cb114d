"""Different: as the page solves it."""


def eight_steps(to_end, length, num_microbatches):
    to_middle = length - 1 - to_end
    words = ["Fn"] * (2 * to_middle)
    words += ["Fn", "Ff"] * (to_end + 1)
    words += ["If", "W", "Ff"] * to_middle
    main = ["Fn&Bf", "Ff&Bn"] * (num_microbatches - 2 * length + to_end + 1)
    words += main if to_middle else ["Fn", "Bf", *main[1:]]
    words += ["Bf", "Ff&Bn"] * to_middle
    ends = ["Bf", "Bn"] * (to_end + 1)
    words += [word if place <= to_end else word.replace("B", "I") for place, word in enumerate(ends)]
    words += ["W", "In"] * to_middle
    return words + ["W"] * (to_end + 1)
