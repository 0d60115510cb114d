# %% right_other_seed
"""Different: another seed, and the formulas as functions of a dict."""

from shardlab.study import quiz

seed = 77
quiz_answers = []
asked = quiz.numbers(2, seed)
formulas = {
    1: lambda p, m: 100 * (p - 1) / (m + p - 1),
    2: lambda p, m, v: 100 * (p - 1) / (v * m + p - 1),
    3: lambda p, share: (p - 1) * (100 - share) // share + 1,
    4: lambda p, m, i: min(p - i, m),
    5: lambda dp, pp, tp, rank: rank // tp % pp,
    6: lambda gpus, peak, billions, tokens: 100 * 6 * billions * 1e9 * tokens / (peak * 1e12),
    7: lambda tokens, k, h, ep: (ep - 1) / ep * tokens * k * h * 2 / 1e6,
    8: lambda k, tokens, experts: k * tokens / experts,
    9: lambda mb, nodes, each: 2 * (nodes - 1) / nodes * mb / each,
    10: lambda billions, n: 16 * billions / n,
}
for place in asked:
    quiz_answers.append(formulas[place](**asked[place]))

# %% of_the_work of="right_other_seed"
"""Wrong: the bubble as a share of the work, not of the time."""

# -    1: lambda p, m: 100 * (p - 1) / (m + p - 1),
# +    1: lambda p, m: 100 * (p - 1) / m,

# %% reaches_the_share of="right_other_seed"
"""Wrong: 285 microbatches for 286, less than 1% off, which have a bubble of exactly 5%."""

# -    3: lambda p, share: (p - 1) * (100 - share) // share + 1,
# +    3: lambda p, share: (p - 1) * (100 - share) // share,

# %% all_stages_alike of="right_other_seed"
"""Wrong: every stage holds as many as the first."""

# -    4: lambda p, m, i: min(p - i, m),
# +    4: lambda p, m, i: min(p - i, m) + 1,

# %% stays_here_too of="right_other_seed"
"""Wrong: counts the rows that stay on the rank."""

# -    7: lambda tokens, k, h, ep: (ep - 1) / ep * tokens * k * h * 2 / 1e6,
# +    7: lambda tokens, k, h, ep: tokens * k * h * 2 / 1e6,

# %% every_rank_sends_all of="right_other_seed"
"""Wrong: forgets that the ranks of a node share the bytes."""

# -    9: lambda mb, nodes, each: 2 * (nodes - 1) / nodes * mb / each,
# +    9: lambda mb, nodes, each: 2 * (nodes - 1) / nodes * mb,

# %% text_as_seed of="right_other_seed"
"""Wrong: a seed that is no whole number."""

# -seed = 77
# +seed = "77"

# %% right_by_hand
"""Different: numbers of three or four digits, as from a calculator."""

seed = 2026
quiz_answers = [30.43, 8.571, 29.0, 3.0, 2.0, 30.56, 29.36, 128.0, 128.0, 13.0]
