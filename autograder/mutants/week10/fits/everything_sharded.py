"""Wrong: cuts weights and gradients, too, as ZeRO-3 does."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - num_parameters / (tp * pp) * 18 / dp - activation_bytes
