# %% right_by_parts
"""Different: the parts of the table, then which of them each way divides."""


def activation_bytes(s, b, h, a, t):
    positions = s * b
    whole, cut, scores = 10 * h, 24 * h, 5 * a * s

    def layer(outside, inside, again=False):
        return positions * (whole / outside + cut / inside + (0 if again else scores / inside))

    pairs = [(1, 1), (1, t), (t, t)]
    return [layer(*pair) for pair in pairs] + [layer(*pair, again=True) for pair in pairs[1:]] + [2 * positions * h]


# %% no_microbatch of="right_by_parts"
"""Wrong: forgets the sequences of a microbatch."""

# -    positions = s * b
# +    positions = s

# %% scores_whole of="right_by_parts"
"""Wrong: leaves the scores whole under tensor parallelism."""

# -        return positions * (whole / outside + cut / inside + (0 if again else scores / inside))
# +        return positions * (whole / outside + cut / inside + (0 if again else scores))

# %% all_split of="right_by_parts"
"""Wrong: takes what tensor parallelism leaves whole as split."""

# -    pairs = [(1, 1), (1, t), (t, t)]
# +    pairs = [(1, 1), (t, t), (t, t)]

# %% nothing_more_split of="right_by_parts"
"""Wrong: sequence parallelism splits nothing."""

# -    pairs = [(1, 1), (1, t), (t, t)]
# +    pairs = [(1, 1), (1, t), (1, t)]

# %% full_split of="right_by_parts"
"""Wrong: divides the input that full recomputation keeps."""

# -    return [layer(*pair) for pair in pairs] + [layer(*pair, again=True) for pair in pairs[1:]] + [2 * positions * h]
# +    return [layer(*pair) for pair in pairs] + [layer(*pair, again=True) for pair in pairs[1:]] + [2 * positions * h / t]

# %% scores_by_hidden of="right_by_parts"
"""Wrong: the scores as s·h instead of a·s."""

# -    whole, cut, scores = 10 * h, 24 * h, 5 * a * s
# +    whole, cut, scores = 10 * h, 24 * h, 5 * h * s

# %% selective_keeps_the_mask of="right_by_parts"
"""Wrong: selective recomputation keeps one of the five bytes of a score."""

# -        return positions * (whole / outside + cut / inside + (0 if again else scores / inside))
# +        return positions * (whole / outside + cut / inside + (scores / inside / 5 if again else scores / inside))

# %% right_tensor
"""Different: a tensor of the six factors, and a tuple of its numbers."""

import torch


def activation_bytes(s, b, h, a, t):
    r = 5 * a * s / h
    factors = torch.tensor([34 + r, 10 + (24 + r) / t, (34 + r) / t, 10 + 24 / t, 34 / t, 2], dtype=torch.float64)
    return tuple((s * b * h * factors).tolist())


# %% elements_for_bytes of="right_tensor"
"""Wrong: counts numbers of two bytes, not bytes."""

# -    return tuple((s * b * h * factors).tolist())
# +    return tuple((s * b * h * factors / 2).tolist())

# %% rank_for_layer of="right_tensor"
"""Wrong: bytes of all ranks together."""

# -    return tuple((s * b * h * factors).tolist())
# +    return tuple((s * b * h * factors * t).tolist())

# %% as_for_one_rank of="right_tensor"
"""Wrong: right where there is one rank."""

#  def activation_bytes(s, b, h, a, t):
# +    t = 1
