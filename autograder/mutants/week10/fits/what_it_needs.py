"""Wrong: bytes needed, not bytes left."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
