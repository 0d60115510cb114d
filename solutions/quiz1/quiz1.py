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
# # Quiz 1 · ten numbers from weeks 1 to 6
#
# *Core: about 30 minutes · no ranks · no GPU needed*
#
# Ten questions about the first six weeks: rings, DDP, ZeRO, FSDP, tensor and sequence parallelism. The numbers depend
# on `seed`: choose any whole number, such as the last four digits of your student number. Another seed gives ten other
# numbers, so you can practice as often as you like.
#
# Use pen and paper, and Python as a calculator, but not the pages. Three digits are enough: an answer may be off by
# 1%. Questions 2 and 8 need the exact whole number. Each question counts a tenth; the feedback names the week that
# explains it. In every question 1 GB = 10⁹ bytes and 1 MB = 10⁶ bytes.

# %%
from shardlab.study import quiz

from autograder import check

quiz.ask(1, seed=1234)

# %% [markdown]
# Put your seed in the cell above and below, and replace each `None`. An answer can be a number or an expression, such
# as `2 * 3 / 4 * 96`.

# %% exercise="quiz1.numbers"
seed = 1234
quiz_answers = [None, None, None, None, None, None, None, None, None, None]
### BEGIN SOLUTION
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
quiz_answers = [formula(**asked[place]) for place, formula in formulas.items()]
### END SOLUTION

# %% check="quiz1.numbers" points=5
check("quiz1.numbers", seed, quiz_answers)

# %% [markdown]
# If fewer than seven are right, go back to the weeks that the feedback names before you continue.
#
# **Next:** `week07_pipeline`.
