"""Wrong: only tensor parallelism cuts the model."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - num_parameters / tp * (2 + 4 + 12 / dp) - activation_bytes
