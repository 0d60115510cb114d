"""Wrong: takes the optimizer for 12 times the weights."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 24 / dp) - activation_bytes
