# %% right_bernoulli
"""Different: the level below, plus a Bernoulli draw; signs at the end; codes of type int64; bits by a logarithm."""

import math

import torch


def levels_of(numbers, scale, levels, generator):
    share = torch.zeros_like(numbers) if scale == 0 else (numbers.abs() / scale).clamp(max=1)
    below = torch.floor(share * levels)
    above = torch.bernoulli(share * levels - below, generator=generator)
    return torch.where(numbers < 0, -(below + above), below + above).long()


def terngrad(gradient, *, generator):
    scale = torch.linalg.vector_norm(gradient, math.inf)
    return scale, levels_of(gradient, scale, 1, generator)


def qsgd(gradient, levels, *, generator):
    scale = gradient.square().sum().sqrt()
    return scale, levels_of(gradient, scale, levels, generator)


def message_bits(num_numbers, levels):
    return num_numbers * math.ceil(math.log2(2 * levels + 1)) + 32


def drawn(method, arguments, num_draws, seed):
    one, again = (torch.Generator().manual_seed(seed) for _ in range(2))
    quantize = {"terngrad": terngrad, "qsgd": qsgd}[method]
    messages = [quantize(*arguments, generator=generator) for generator in [one] * num_draws + [again]]
    scales, codes = zip(*messages, strict=True)
    return [float(scale) for scale in scales], torch.stack([torch.as_tensor(one) for one in codes])


# %% right_in_a_loop of="right_bernoulli"
"""Different: one Python number at a time and a list of codes; TernGrad compares, QSGD rounds down from above."""

# -    above = torch.bernoulli(share * levels - below, generator=generator)
# -    return torch.where(numbers < 0, -(below + above), below + above).long()
# +    above = torch.bernoulli(share * levels - below, generator=generator)
# +    return torch.where(numbers < 0, -(below + above), below + above).long()
# +
# +
# +def one_code(number, scale, levels, generator):
# +    height = levels * number / scale if scale else 0.0
# +    return math.ceil(height - torch.rand((), generator=generator, dtype=torch.float64).item())

# -    scale = torch.linalg.vector_norm(gradient, math.inf)
# -    return scale, levels_of(gradient, scale, 1, generator)
# +    numbers = gradient.tolist()
# +    scale, draws = max(map(abs, numbers)), torch.rand(len(numbers), generator=generator).tolist()
# +    return scale, [(n > 0) - (n < 0) if draw * scale < abs(n) else 0 for draw, n in zip(draws, numbers, strict=True)]

# -    scale = gradient.square().sum().sqrt()
# -    return scale, levels_of(gradient, scale, levels, generator)
# +    scale = math.sqrt(sum(number * number for number in gradient.tolist()))
# +    return scale, [one_code(number, scale, levels, generator) for number in gradient.tolist()]

# %% right_as_taught from="page"
"""Different: the page's own solution, with one helper for both."""

# %% nearest of="right_as_taught"
"""Wrong: rounds to the nearest level, always to the same one: small numbers are never sent."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = gradient.sign() * height.round()

# %% half_a_draw of="right_as_taught"
"""Wrong: biased rounding, with draws from 0 to 1/2: small numbers are rounded down too often."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator) / 2).floor()

# %% fair_coin of="right_as_taught"
"""Wrong: up or down with equal chances, wherever the number is between the two."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator).round()).floor()

# %% sign_lost of="right_as_taught"
"""Wrong: levels without a sign."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = (height + torch.rand(height.shape, generator=generator)).floor()

# %% floor_of_signed of="right_as_taught"
"""Wrong: cuts the signed height toward 0 after adding the draw, so that negative numbers lose a part of theirs."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = (gradient.sign() * height + torch.rand(height.shape, generator=generator)).trunc()

# %% one_draw_for_all of="right_as_taught"
"""Wrong: one uniform number for the whole gradient: right on average, but all numbers are rounded up together."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = gradient.sign() * (height + torch.rand(1, generator=generator)).floor()

# %% other_generator of="right_as_taught"
"""Wrong: draws from torch's global generator, so a run cannot be repeated."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    codes = gradient.sign() * (height + torch.rand(height.shape)).floor()

# %% never_zero of="right_as_taught"
"""Wrong: a plus or a minus for every number, right on average, but a 0 becomes 1 or -1: unbiased and too noisy."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    below = (gradient.sign() * height).floor().clamp(max=levels - 1)
# +    share = (gradient.sign() * height - below + 1) / 2
# +    codes = below + (torch.rand(height.shape, generator=generator) < share) * 2 - 1

# %% zeros_sent_as_one of="right_as_taught"
"""Wrong: the sign of 0 is taken as 1, and 0 is sent up like any other."""

# -    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# +    sign = torch.where(gradient < 0, -1, 1)
# +    codes = sign * (height + torch.rand(height.shape, generator=generator)).floor().clamp(min=1)

# %% max_for_both of="right_as_taught"
"""Wrong: QSGD with TernGrad's scale."""

# -    return rounded(gradient, gradient.norm(), levels, generator)
# +    return rounded(gradient, gradient.abs().max(), levels, generator)

# %% norm_for_both of="right_as_taught"
"""Wrong: TernGrad with QSGD's scale."""

# -    return rounded(gradient, gradient.abs().max(), 1, generator)
# +    return rounded(gradient, gradient.norm(), 1, generator)

# %% scales_swapped_inside of="right_as_taught"
"""Wrong: reports the norm, but measures in units of the largest magnitude."""

# -    return rounded(gradient, gradient.norm(), levels, generator)
# +    return gradient.norm(), rounded(gradient, gradient.abs().max(), levels, generator)[1]

# %% sum_of_magnitudes of="right_as_taught"
"""Wrong: the sum of the magnitudes for the Euclidean norm."""

# -    return rounded(gradient, gradient.norm(), levels, generator)
# +    return rounded(gradient, gradient.abs().sum(), levels, generator)

# %% decoded of="right_as_taught"
"""Wrong: returns the decoded numbers instead of codes."""

# -    return scale, codes.to(torch.int8)
# +    return scale, scale * codes / levels

# %% divides_by_zero of="right_as_taught"
"""Wrong: 0 / 0 for a gradient of zeros, and the codes are NaN."""

# -    height = gradient.abs() / scale.clamp(min=1e-30) * levels
# +    height = gradient.abs() / scale * levels
#      codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
# -    return scale, codes.to(torch.int8)
# +    return scale, codes

# %% no_bits_for_the_scale of="right_as_taught"
"""Wrong: forgets the scale's 32 bits."""

# -    return 32 + num_numbers * (2 * levels).bit_length()
# +    return num_numbers * (2 * levels).bit_length()

# %% no_bit_for_the_sign of="right_as_taught"
"""Wrong: bits for the levels 0 to s, without the sign."""

# -    return 32 + num_numbers * (2 * levels).bit_length()
# +    return 32 + num_numbers * levels.bit_length()

# %% sends_floats of="right_as_taught"
"""Wrong: 32 bits per number, as if nothing were encoded."""

# -    return 32 + num_numbers * (2 * levels).bit_length()
# +    return 32 + 32 * num_numbers
