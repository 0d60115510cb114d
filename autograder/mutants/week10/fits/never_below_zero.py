"""Wrong: hides how much is missing."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return max(0, gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 12 / dp) - activation_bytes)
