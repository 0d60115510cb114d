"""Wrong: counts gradients in bf16, where the main ones are fp32."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes - num_parameters / (tp * pp) * (2 + 2 + 12 / dp) - activation_bytes
