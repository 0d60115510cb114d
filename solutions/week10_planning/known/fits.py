# %% right_in_fractions
"""Different: exact fractions, rounded at the end."""

from fractions import Fraction


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    each = 6 + Fraction(12, dp)
    return float(gpu_bytes - Fraction(num_parameters, tp * pp) * each - activation_bytes)


# %% right_part_by_part
"""Different: adds up the parts one after the other."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    mine = num_parameters / tp / pp
    weights, gradients = 2 * mine, 4 * mine
    optimizer = sum(4 * mine / dp for _ in ("master", "momentum", "variance"))
    return gpu_bytes - (weights + gradients + optimizer + activation_bytes)


# %% right_tensor
"""Different: returns a tensor of one number."""

import torch


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return (
        gpu_bytes
        - torch.tensor([2, 4, 12 / dp], dtype=torch.float64).sum() * num_parameters / (tp * pp)
        - activation_bytes
    )


# %% a_verdict
"""Wrong: yes or no where a number is asked for."""


def bytes_left(num_parameters, tp, pp, dp, activation_bytes, gpu_bytes):
    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes


# %% data_parallel_cuts_the_model of="a_verdict"
"""Wrong: divides all by all GPUs."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp * dp) * 18 - activation_bytes

# %% everything_sharded of="a_verdict"
"""Wrong: cuts weights and gradients, too, as ZeRO-3 does."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp) * 18 / dp - activation_bytes

# %% forgets_the_pipeline of="a_verdict"
"""Wrong: only tensor parallelism cuts the model."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / tp * (2 + 4 + 12 / dp) - activation_bytes

# %% gigabytes of="a_verdict"
"""Wrong: in GB."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return (gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 12 / dp) - activation_bytes) / 1e9

# %% never_below_zero of="a_verdict"
"""Wrong: hides how much is missing."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return max(0, gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 12 / dp) - activation_bytes)

# %% no_activations of="a_verdict"
"""Wrong: model states alone."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 12 / dp)

# %% nothing_sharded of="a_verdict"
"""Wrong: every data-parallel rank keeps the whole optimizer."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 12) - activation_bytes

# %% public_sizes of="a_verdict"
"""Wrong: the public numbers, written down."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - 70e9 / (8 * pp) * 7.5 - 20e9

# %% the_other_sign of="a_verdict"
"""Wrong: above 0 where it does not fit."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes - gpu_bytes

# %% twelve_times_the_weights of="a_verdict"
"""Wrong: takes the optimizer for 12 times the weights."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp) * (2 + 4 + 24 / dp) - activation_bytes

# %% two_byte_gradients of="a_verdict"
"""Wrong: counts gradients in bf16, where the main ones are fp32."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return gpu_bytes - num_parameters / (tp * pp) * (2 + 2 + 12 / dp) - activation_bytes

# %% what_it_needs of="a_verdict"
"""Wrong: bytes needed, not bytes left."""

# -    return gpu_bytes > num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
# +    return num_parameters / (tp * pp) * (2 + 4 + 12 / dp) + activation_bytes
