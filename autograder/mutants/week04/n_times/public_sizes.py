"""Wrong: knows 64 ranks."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    whole, cut = 16 * num_parameters, 16 * num_parameters / 64
    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)
