"""Wrong: small over large."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
    return cut / whole, (cut + activation_bytes) / (whole + activation_bytes)
