"""Wrong: the two factors change places."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
    return (whole + activation_bytes) / (cut + activation_bytes), whole / cut
