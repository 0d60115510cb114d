# %% right_other_seed
"""Different: another seed, and the formulas as functions of a dict."""

from shardlab.study import quiz

seed = 77
quiz_answers = []
asked = quiz.numbers(1, seed)
formulas = {
    1: lambda mb, n: 2 * (n - 1) / n * mb,
    2: lambda n: 2 * (n - 1),
    3: lambda mb, n, gbps, us: 2 * (n - 1) * us / 1e3 + 2 * (n - 1) / n * mb / gbps,
    4: lambda compute, communicate, hidden: 100 * compute / (compute + communicate - hidden),
    5: lambda billions, n: billions * (4 + 12 / n),
    6: lambda billions, n: billions * (2 + 14 / n),
    7: lambda billions, n: 3 * (n - 1) / n * 2 * billions,
    8: lambda parameters, n: -(-parameters // n),
    9: lambda t, b, s, h: 4 * 2 * (t - 1) / t * 2 * b * s * h / 1e6,
    10: lambda t, b, s, h, a: s * b * h / t * (34 + 5 * a * s / h) / 1e6,
}
for place in asked:
    quiz_answers.append(formulas[place](**asked[place]))

# %% once_for_twice of="right_other_seed"
"""Wrong: counts the reduce-scatter only."""

# -    1: lambda mb, n: 2 * (n - 1) / n * mb,
# +    1: lambda mb, n: (n - 1) / n * mb,

# %% no_latency of="right_other_seed"
"""Wrong: forgets what each message costs."""

# -    3: lambda mb, n, gbps, us: 2 * (n - 1) * us / 1e3 + 2 * (n - 1) / n * mb / gbps,
# +    3: lambda mb, n, gbps, us: 2 * (n - 1) / n * mb / gbps,

# %% rounds_down of="right_other_seed"
"""Wrong: a shard without padding."""

# -    8: lambda parameters, n: -(-parameters // n),
# +    8: lambda parameters, n: parameters // n,

# %% forward_only of="right_other_seed"
"""Wrong: two all-reduces, without the backward."""

# -    9: lambda t, b, s, h: 4 * 2 * (t - 1) / t * 2 * b * s * h / 1e6,
# +    9: lambda t, b, s, h: 2 * 2 * (t - 1) / t * 2 * b * s * h / 1e6,

# %% text_as_seed of="right_other_seed"
"""Wrong: a seed that is no whole number."""

# -seed = 77
# +seed = "77"

# %% right_by_hand
"""Different: numbers of three or four digits, as from a calculator."""

seed = 2026
quiz_answers = [32.0, 126.0, 4.48, 75.76, 29.31, 38.5, 36.75, 5462.0, 939.5, 813.7]
