# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quiz 2 · ten numbers from weeks 7 to 12
#
# *Core: about 30 minutes · no ranks · no GPU needed*
#
# Ten questions: eight about pipelines, meshes, MFU and experts, and two from the first weeks. The numbers depend on
# `seed`: choose any whole number, such as the last four digits of your student number. Another seed gives ten other
# numbers, so you can practice as often as you like.
#
# Use pen and paper, and Python as a calculator, but not the pages. Three digits are enough: an answer may be off by
# 1%. Questions 3, 4 and 5 need the exact whole number. Each question counts a tenth; the feedback names the week that
# explains it. In every question 1 GB = 10⁹ bytes and 1 MB = 10⁶ bytes.

# %%
from shardlab.study import quiz

from autograder import check

quiz.ask(2, seed=1234)

# %% [markdown]
# Put your seed in the cell above and below, and replace each `None`. An answer can be a number or an expression, such
# as `2 * 3 / 4 * 96`.

# %% exercise="quiz2.numbers"
seed = 1234
quiz_answers = [None, None, None, None, None, None, None, None, None, None]
### BEGIN SOLUTION
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
quiz_answers = [formula(**asked[place]) for place, formula in formulas.items()]
### END SOLUTION

# %% check="quiz2.numbers" points=5
check("quiz2.numbers", seed, quiz_answers)

# %% [markdown]
# If fewer than seven are right, go back to the weeks that the feedback names before you continue.
#
# **Next:** `week13_dualpipe`.
