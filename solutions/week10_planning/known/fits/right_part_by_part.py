"""Different: adds up the parts one after the other."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    mine = num_parameters / tp / pp
    weights, gradients = 2 * mine, 4 * mine
    optimizer = sum(4 * mine / dp for _ in ("master", "momentum", "variance"))
    return gpu_bytes - (weights + gradients + optimizer + activation_bytes)
