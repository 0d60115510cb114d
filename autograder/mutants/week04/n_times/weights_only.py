"""Wrong: counts 2 bytes a parameter."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    whole, cut = 2 * num_parameters, 2 * num_parameters / num_ranks
    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)
