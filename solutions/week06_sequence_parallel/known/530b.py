# %% right_rounded
"""Different: written down by hand, rounded."""


def layer_of_530b():
    return (8.81e8, 1.783e8, 0.653, 0.00546, 0.3333, 126)


# %% right_with_fractions
"""Different: exact fractions of the formulas, turned into numbers at the end."""

from fractions import Fraction


def layer_of_530b():
    s, h, a, t = 2048, 20480, 128, 8
    scores = Fraction(5 * a * s, h)
    tp = s * h * (10 + Fraction(24, t) + scores / t)
    selective = s * h * Fraction(34, t)
    extra = Fraction(s, 18 * h) / (1 + Fraction(s, 6 * h))
    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12
    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3), rate)]


# %% twice_the_attention of="right_with_fractions"
"""Wrong: counts the core's backward as done again too."""

# -    extra = Fraction(s, 18 * h) / (1 + Fraction(s, 6 * h))
# +    extra = Fraction(s, 6 * h) / (1 + Fraction(s, 6 * h))

# %% of_the_matrices of="right_with_fractions"
"""Wrong: the core's share of the matrices' FLOPs, not of the layer's."""

# -    extra = Fraction(s, 18 * h) / (1 + Fraction(s, 6 * h))
# +    extra = Fraction(s, 18 * h)

# %% full_of_two of="right_with_fractions"
"""Wrong: a forward as a share of the backward."""

# -    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3), rate)]
# +    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 2), rate)]

# %% full_of_four of="right_with_fractions"
"""Wrong: a forward as a share of all four."""

# -    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3), rate)]
# +    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 4), rate)]

# %% one_gpu of="right_with_fractions"
"""Wrong: without tensor parallelism."""

# -    s, h, a, t = 2048, 20480, 128, 8
# +    s, h, a, t = 2048, 20480, 128, 1

# %% saves_of_tp of="right_with_fractions"
"""Wrong: the share that is saved without sequence parallelism."""

# -    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3), rate)]
# +    return [float(one) for one in (tp, selective, scores / t / (10 + Fraction(24, t) + scores / t), extra, Fraction(1, 3), rate)]

# %% keeps_for_saves of="right_with_fractions"
"""Wrong: the share that is left."""

# -    return [float(one) for one in (tp, selective, scores / (34 + scores), extra, Fraction(1, 3), rate)]
# +    return [float(one) for one in (tp, selective, 34 / (34 + scores), extra, Fraction(1, 3), rate)]

# %% gpt3 of="right_with_fractions"
"""Wrong: GPT-3's sizes."""

# -    s, h, a, t = 2048, 20480, 128, 8
# +    s, h, a, t = 2048, 12288, 96, 8

# %% without_sequence_parallelism of="right_with_fractions"
"""Wrong: selective recomputation with the 10 left whole."""

# -    selective = s * h * Fraction(34, t)
# +    selective = s * h * (10 + Fraction(24, t))

# %% model_flops of="right_with_fractions"
"""Wrong: counts three forwards, without the recomputation that MT-NLG counts."""

# -    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12
# +    rate = 72 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12

# %% without_attention of="right_with_fractions"
"""Wrong: leaves out the scores, 1.6% of the FLOPs."""

# -    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12
# +    rate = 96 * 105 * 1920 * s * h**2 / Fraction("60.1") / 2240 / 10**12

# %% flops_not_tera of="right_with_fractions"
"""Wrong: FLOP/s instead of teraFLOP/s."""

# -    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12
# +    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240

# %% of_one_replica of="right_with_fractions"
"""Wrong: divides by the 280 GPUs of one replica, with the batch of all eight."""

# -    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 2240 / 10**12
# +    rate = 96 * 105 * 1920 * s * h**2 * (1 + Fraction(s, 6 * h)) / Fraction("60.1") / 280 / 10**12
