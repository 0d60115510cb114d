"""Wrong: DDP has activations as well."""


def zero3_saves(num_parameters, num_ranks, activation_bytes):
    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
    return whole / cut, whole / (cut + activation_bytes)
