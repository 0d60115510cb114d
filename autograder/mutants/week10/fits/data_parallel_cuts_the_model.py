"""Wrong: divides all by all GPUs."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - num_parameters / (tp * pp * dp) * 18 - activation_bytes
