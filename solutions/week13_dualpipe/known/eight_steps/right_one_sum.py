"""Different: one sum of multiplied texts, split at the end."""


def eight_steps(to_end, length, num_microbatches):
    c, e = length - 1 - to_end, to_end + 1
    steady = "Fn&Bf Ff&Bn " * (num_microbatches - 2 * length + e)
    if not c:
        steady = steady.replace("&", " ", 1)
    ends = ("Bf Bn " * e).split()
    late = [word.replace("B", "I") for word in ends[e:]]
    first = "Fn " * (2 * c) + "Fn Ff " * e + "If W Ff " * c + steady + "Bf Ff&Bn " * c
    return first.split() + ends[:e] + late + ("W In " * c + "W " * e).split()
