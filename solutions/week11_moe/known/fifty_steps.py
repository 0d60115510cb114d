# %% right_falling_sign
"""Different: the sign, with a rate that falls a hundredfold."""

import torch


def next_bias(bias, load, step):
    rate = 0.1 * 0.01 ** (step / 49)
    return bias + rate * torch.sign(load.float().mean() - load)


def balanced(batches, k):
    bias, biases = torch.zeros(batches.shape[-1]), []
    for step, logits in enumerate(batches):
        experts = (logits.sigmoid() + bias).topk(k, -1).indices
        bias = next_bias(bias, torch.bincount(experts.flatten(), minlength=len(bias)), step)
        biases.append(bias)
    return torch.stack(biases)


# %% rate_of_deepseek of="right_falling_sign"
"""Wrong: the sign at a rate of 0.001: does not arrive."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.001

# %% rate_0_003 of="right_falling_sign"
"""Wrong: the sign at a rate of 0.003: does not arrive."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.003

# %% rate_0_01 of="right_falling_sign"
"""Wrong: the sign at a rate of 0.01: arrives late, and swings."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.01

# %% rate_0_02 of="right_falling_sign"
"""Wrong: the sign at a rate of 0.02: swings."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.02

# %% rate_0_1 of="right_falling_sign"
"""Wrong: the sign at a rate of 0.1: swings."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.1

# %% nothing of="right_falling_sign"
"""Wrong: leaves the bias as it is."""

# -    return bias + rate * torch.sign(load.float().mean() - load)
# +    return bias

# %% away of="right_falling_sign"
"""Wrong: up where there is too much."""

# -    return bias + rate * torch.sign(load.float().mean() - load)
# +    return bias + rate * torch.sign(load - load.float().mean())

# %% rising of="right_falling_sign"
"""Wrong: small steps first, large ones at the end."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.1 * 0.01 ** (1 - step / 49)

# %% fullest_alone of="right_falling_sign"
"""Wrong: moves the fullest expert alone."""

# -    return bias + rate * torch.sign(load.float().mean() - load)
# +    return bias + 0.05 * -torch.nn.functional.one_hot(load.argmax(), len(load))

# %% stops_early of="right_falling_sign"
"""Wrong: stops after ten steps."""

# -    rate = 0.1 * 0.01 ** (step / 49)
# +    rate = 0.02 if step < 10 else 0

# %% right_in_proportion
"""Different: in proportion to what is missing, within limits, and less and less."""

import torch


def next_bias(bias, load, step):
    even = load.sum() / len(load)
    wanted = ((even - load) / even).clip(-1, 1)
    return bias + max(0.01, 0.15 - 0.003 * step) * wanted


def balanced(batches, k):
    bias, biases = torch.zeros(batches.shape[-1]), []
    for step, logits in enumerate(batches):
        experts = (logits.sigmoid() + bias).topk(k, -1).indices
        bias = next_bias(bias, torch.bincount(experts.flatten(), minlength=len(bias)), step)
        biases.append(bias)
    return torch.stack(biases)


# %% too_strong of="right_in_proportion"
"""Wrong: in proportion, and too strongly."""

# -    return bias + max(0.01, 0.15 - 0.003 * step) * wanted
# +    return bias + 0.2 * wanted

# %% too_weak of="right_in_proportion"
"""Wrong: in proportion, and too weakly."""

# -    return bias + max(0.01, 0.15 - 0.003 * step) * wanted
# +    return bias + 0.002 * wanted

# %% forgets_what_was of="right_in_proportion"
"""Wrong: starts from zero at each step."""

# -    return bias + max(0.01, 0.15 - 0.003 * step) * wanted
# +    return max(0.01, 0.15 - 0.003 * step) * wanted

# %% counts_not_divided of="right_in_proportion"
"""Wrong: in proportion to the count, not to the share: hundreds."""

# -    wanted = ((even - load) / even).clip(-1, 1)
# +    wanted = even - load

# %% not_a_number of="right_in_proportion"
"""Wrong: divides by experts without a token."""

# -    wanted = ((even - load) / even).clip(-1, 1)
# +    wanted = (even - load) / (load - load)
