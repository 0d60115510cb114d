"""Wrong: yes or no where a number is asked for."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
