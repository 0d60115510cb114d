"""Wrong: the public numbers, written down."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - 70e9 / (8 * pp) * 7.5 - 20e9
