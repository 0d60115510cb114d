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
# # Week 16 · Capstone, design (毕业设计): a plan that you can defend
#
# *Core: about 170 minutes; optional: about 60 · 1 rank, 2 for the review · no GPU needed*
#
# Someone asks: *which cluster, for how long, for how much money, and what will go wrong?* You answer with a document,
# and compute every number in it in your own cells.
#
# After this week you can
#
# - [ ] **compute** a design: memory, bytes, time, MFU, days, dollars, failures, checkpoints, goodput;
# - [ ] **predict** a published step time from another one, and know how far off you are;
# - [ ] **defend** your design aloud, against follow-up questions.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What are the three costs of a layout?</summary>
#
# Memory (states and activations), bytes on the links, and waiting: bubbles and exposed communication (week 10).
# </details>
#
# <details><summary>Why does a training run stop when one GPU does?</summary>
#
# All ranks take part in collectives. If one is missing, all others wait (week 1).
# </details>
#
# <details><summary>A loss falls smoothly. Is the training right?</summary>
#
# Not necessarily. With most bugs in this course the loss still falls, but more slowly or towards a different goal.
# </details>

# %%
import torch
from shardlab import costs, figures, run
from shardlab.costs import failures, memory, planning, sizes, validation
from shardlab.study import interview

from autograder import check

dist = torch.distributed

# %% [markdown]
# ## 1 · The problem in numbers
#
# Llama 3 405B was trained on 16,384 GPUs. In a snapshot of 54 days the run was interrupted 419 times unexpectedly
# (arXiv 2407.21783, section 3.3.4). Count each interruption as the failure of one GPU. **Guess: how long does one of
# these GPUs run before it fails? And how long did the job run, on average, between two interruptions?**

# %%
snapshot = failures.LLAMA3
one = failures.mean_seconds_of_one(snapshot["gpus"], snapshot["days"] * 86400, snapshot["failures"])
print(f"one GPU fails every {one / 86400 / 365:.1f} years")
for num_gpus in (1, 8, 1024, 16384, 100_000):
    between = failures.mean_seconds_between(num_gpus, one)
    print(f"{num_gpus:7,} GPUs: a failure every {between / 3600:9.1f} hours")

# %% [markdown]
# Such a GPU is reliable, and yet the run stops eight times per day.
#
# ### Warm-up: `interruptions`
#
# **`interruptions(num_gpus, hours_of_one, days)`** returns three numbers: hours between two failures of the run (MTBF,
# 平均故障间隔), the expected number of failures in `days` days, and the probability of *a day* without one. Failures
# are independent and memoryless: with M hours between failures, there is none for t hours with probability exp(−t/M).
#
# **By hand.** 8 GPUs, each fails once per 80 hours, 5 days. The run fails every 80/8 = 10 hours, 24 · 5/10 = 12 times,
# and a day passes without a failure with probability exp(−24/10) = 9%. *About 2 lines.*
#
# > **What the grade varies.** Checks show some cases. Grading uses others: different models, clusters and prices, one
# > GPU to fifty thousand, every axis alone and all together, two to eight ranks in the review.


# %% exercise="week16.failures"
def interruptions(num_gpus, hours_of_one, days):
    """(hours between failures of the run, expected failures in `days` days, probability of a day without one)."""
    ### BEGIN SOLUTION
    from math import exp

    hours = hours_of_one / num_gpus
    return hours, 24 * days / hours, exp(-24 / hours)
    ### END SOLUTION


# %% check="week16.failures" points=1
check("week16.failures", interruptions)

# %% [markdown]
# ## 2 · The picture first: when to write a checkpoint
#
# A run fails every M = 8 hours. A **checkpoint** (检查点) takes δ = 15 minutes. You write one after every τ hours of
# work. A failure loses the work since the last one, on average half of τ. The two costs as shares of the time:
#
# | τ | writing, δ/τ | repeated work, τ/2M | total |
# |---|---|---|---|
# | 30 min | 50% | 3% | 53% |
# | 2 h | 12.5% | 12.5% | **25%** |
# | 8 h | 3% | 50% | 53% |
#
# One falls, the other rises, and their sum is smallest **where they are equal**: δ/τ = τ/2M, so τ = √(2·δ·M), here √(2
# · ¼ · 8) = 2 hours. That is Young's formula of 1974.
#
# **Notation.** τ: work between checkpoints; δ: writing one (week 15: T and s); M: time between failures; R: time from a
# failure until work resumes; all in seconds. A layout is a dict: `tp`, `cp`, `pp`, `dp`, `b` sequences in a microbatch,
# `m` microbatches, `chunks` on a stage, `recompute`.
#
# **Goodput** (有效吞吐) is the share of the time spent on work that is not repeated. If each failure immediately
# restarts an interval of τ + δ seconds, completing it takes M(e^((τ+δ)/M) − 1) seconds on average. A restart takes
# R and may fail too, which multiplies everything by e^(R/M). So goodput = τ / (M · e^(R/M) · (e^((τ+δ)/M) − 1)) (Daly,
# 2006). By hand, in hours, with the best τ above and R = 0: 2 / (8 · (e^(2.25/8) − 1)) = 77%, compared with 100% − 25%
# in the table.
#
# **`best_interval(save, between)`** returns Young's τ; **`goodput(interval, save, between, restart)`** returns the
# share. *One line each.*


# %% exercise="week16.interval"
def best_interval(save, between):
    """Seconds of work between two checkpoints (Young 1974)."""
    ### BEGIN SOLUTION
    return (2 * save * between) ** 0.5
    ### END SOLUTION


def goodput(interval, save, between, restart):
    """The share of the time spent on work that is not repeated (Daly 2006)."""
    ### BEGIN SOLUTION
    from math import exp, expm1

    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
    ### END SOLUTION


# %% check="week16.interval" points=2
check("week16.interval", best_interval, goodput)

# %% [markdown]
# **Predict, then simulate.** Llama 405B stores 14 bytes per parameter (2 for weights, 12 for Adam), Meta's storage
# sustains 2 TB/s (section 3.3.1 of the paper), and we assume that a restart takes ten minutes. Is it worse to write too
# often or too rarely? The dots are *simulated*, without a formula.

# %%
llama = costs.find_model("llama3-405b")
save = failures.checkpoint_bytes(costs.num_parameters(llama)) / 2e12
mean = failures.mean_seconds_between(16384, one)
taus = [best_interval(save, mean) * factor for factor in (0.1, 0.3, 1, 3, 10)]
played = {tau: failures.played_goodput(tau, save, mean, 600, checkpoints=100_000) for tau in taus}
figure, ax = figures.new_axes(7.5, 3)
title = "The curve is flat around the best interval, and restarts cost more"
figures.show(figure, figures.draw_goodput(ax, save, mean, 600, played=played, title=title))
print(f"no restart at all: {goodput(taus[2], save, mean, 0):.1%}; no checkpoint cost: {goodput(1, 0, mean, 600):.1%}")

# %% [markdown]
# An interval three times too long or too short hardly matters; ten times does. The report says that more than 90% of
# the time was effective. **By the last line, which would you make faster first, the checkpoint or the restart?**
#
# ## 3 · What a GPU holds and sends
#
# A model is a dict: `parameters`, `layers`, `hidden`, `heads`, `kv` (width of all keys), `sequence`. Both functions
# need three sizes: s = sequence/cp, the positions of a rank; n = dp · cp, the ranks that hold the *same* parameters,
# because cp splits only the sequence; and P = parameters/(tp · pp), those of a rank.
#
# **`gpu_bytes(model, layout)`**: what a GPU of the first stage holds in bf16, the sum of
#
# | | bytes |
# |---|---|
# | weight and gradient of each parameter (week 10) | 2 + 4 |
# | its Adam state, shared by n ranks (week 3) | 12/n |
# | each layer in flight (week 6) | 34 · s · b · hidden/tp |
# | with `recompute` | 2 instead of 34, and *one* more layer, the recomputed one, with all 34 |
#
# How many layers are in flight? With one chunk, layers/pp for each of min(pp, m) microbatches (week 7). With more,
# layers · (1 + (pp − 1)/(pp · chunks)) (week 8).
#
# **`sent_bytes(model, layout)`**: what a rank of a middle stage sends in a step, a dict of `tp`, `cp`, `pp`, `dp`. One
# activation is A = 2 · s · b · hidden bytes. Multiply tp and cp by m · layers/pp.
#
# | axis | one message | how many |
# |---|---|---|
# | tp | a ring all-reduce of A (week 5) | 4; with `recompute` 6, as the forward runs twice |
# | cp | keys and values of s positions (week 14): 2 · 2 · s · b · kv/tp | 3 (cp − 1); with `recompute` 4 (cp − 1) |
# | pp | A/tp, if pp > 1 (week 7) | 2 per microbatch and chunk |
# | dp | (n − 1)/n of 4 + 2 bytes for each of P: reduce-scatter, all-gather (week 3) | 1 |
#
# **By hand.** 100 parameters, two layers, hidden 4, kv 2, sequence 8; cp 2 and everything else 1, no recomputation. So
# s = 4, n = 2 and P = 100.
#
# | | |
# |---|---|
# | states | 100 · (6 + 12/2) = 1,200 |
# | activations: 2 layers in flight, 34 bytes for each of 4 · 4 numbers | 2 · 34 · 16 = 1,088 |
# | the same with `recompute` | (2 · 2 + 34) · 16 = 608 |
# | `gpu_bytes` | 2,288 |
# | tp, pp | 0, 0 |
# | cp: a message has 2 · 2 · 4 · 2 = 32 bytes; three in each of 2 layers | 192 |
# | dp: half of 100 · (4 + 2) bytes | 300 |
#
# (Three on cp: once in the forward, and in the backward once more with their gradients.) With tp 2 instead of cp 2, A
# is 64 bytes. A ring over two ranks sends 2 · ½ · 64; four in each of 2 layers send 512. *About 7 lines each.*


# %% exercise="week16.sheet"
def gpu_bytes(model, layout):
    """Bytes of states and activations on a GPU of the first stage."""
    ### BEGIN SOLUTION
    tp, cp, pp, chunks = (layout[name] for name in ("tp", "cp", "pp", "chunks"))
    states = model["parameters"] / (tp * pp) * (6 + 12 / (layout["dp"] * cp))
    per_byte = model["sequence"] / cp * layout["b"] * model["hidden"] / tp
    in_flight = model["layers"] / pp * min(pp, layout["m"])
    if chunks > 1:
        in_flight = model["layers"] * (1 + (pp - 1) / (pp * chunks))
    return states + per_byte * (2 * in_flight + 34 if layout["recompute"] else 34 * in_flight)
    ### END SOLUTION


def sent_bytes(model, layout):
    """Bytes that a GPU of a middle stage sends per step, by axis."""
    ### BEGIN SOLUTION
    tp, cp, pp, m, again = (layout[name] for name in ("tp", "cp", "pp", "m", "recompute"))
    share, ranks = model["parameters"] / (tp * pp), layout["dp"] * cp
    positions = 2 * layout["b"] * model["sequence"] / cp
    return {
        "tp": m * model["layers"] / pp * (6 if again else 4) * 2 * (tp - 1) / tp * positions * model["hidden"],
        "cp": m * model["layers"] / pp * (4 if again else 3) * (cp - 1) * 2 * positions * model["kv"] / tp,
        "pp": m * layout["chunks"] * 2 * positions * model["hidden"] / tp if pp > 1 else 0,
        "dp": (ranks - 1) / ranks * 6 * share,
    }
    ### END SOLUTION


# %% check="week16.sheet" points=2
check("week16.sheet", gpu_bytes, sent_bytes)

# %% [markdown]
# Compare with the planner for Meta's own layout (table 4 of the paper). The cell prints three reasons why the planner
# counts less. **Which axis sends most? Does your number fit into 80 GiB?**

# %%
gpu = costs.find_accelerator("h100")
llama_run = next(row for row in validation.read_runs() if row.id == "LLAMA3-405B-16384-cp1")
trained = llama_run.layout
theirs = {"model": sizes.model_sizes(llama), "layout": sizes.layout_sizes(trained)}
whole = planning.peak_memory(llama, trained, gradient_bytes=4)
print(f"mine {gpu_bytes(**theirs) / costs.GIB:.1f} GiB, the planner {whole.total / costs.GIB:.1f} GiB")
tp, pp, m = trained.tp, trained.pp, trained.num_microbatches
own, numbers = costs.num_parameters(llama) / (tp * pp), llama.sequence * llama.hidden / tp
formula, held = llama.layers * (1 + (pp - 1) / (pp * trained.virtual)), memory.in_flight_layers(llama, trained, stage=1)
kept = memory.layer_activation_bytes(llama, trained) / numbers
for why, less in {
    "Meta sharded gradients (section 3.3.2)": 4 * own - whole.states.gradients,
    f"{m} microbatches have {held:.0f} layers in flight, not {formula:.0f}": 34 * numbers * (formula - held),
    f"Llama (no dropout, narrow keys, gated MLP) keeps {kept} bytes, not 34": (34 - kept) * numbers * held,
}.items():
    print(f"{less / costs.GIB:4.1f} GiB: {why}")
figure, ax = figures.new_axes(7.5, 2)
title = "Llama 3 405B on 16,384 GPUs: most bytes travel inside a server"
names = {"tp": "tensor, in a server", "cp": "context", "pp": "pipeline", "dp": "data, with ZeRO-1"}
sent = {names[axis]: num_bytes for axis, num_bytes in sent_bytes(**theirs).items()}
figures.show(figure, figures.draw_bars(ax, sent, title=title))

# %% [markdown]
# ## 4 · Time and money
#
# `gpu` is a dict. Per second, a GPU achieves `flops`, `nvlink` and `network` (through its own card); further keys are
# `per_server`, `peak` and `dollars` per hour.
#
# - **`step_seconds(model, layout, gpu)`**. A *slot* is one microbatch on one stage: 6 FLOPs per parameter of the rank
#   and token, 8 with `recompute`; then the microbatch's share of tp, cp and pp. There are m + (pp − 1)/chunks slots,
#   then dp. Nothing overlaps. Ranks are numbered with tp innermost, then cp, dp and pp; dp's group has n ranks, tp
#   apart. `link`, below, returns each axis's bandwidth: tp and dp are collectives, cp and pp send to the next rank.
#   *About 8 lines.*
# - **`bill(model, layout, gpu, tokens)`** returns the MFU (6P FLOPs per token, even with recomputation, divided by the
#   `peak` of all GPUs), and the days and dollars for `tokens` tokens. *About 5 lines.*
#
# **By hand.** m = 4, pp = 2, one chunk: 4 + 1 = 5 slots. If a slot computes for 1.6 s and its messages take 0.4 s, the
# slots take 10 s; with 1 s of dp at the end, a step takes 11 s. In the tiny model above, cp's share of a microbatch is
# 192 bytes over m = 1, and its 2 ranks fit into a server: NVLink. If a step of 64 sequences of 1,000 tokens takes 11 s,
# then 6.4 million tokens take 100 steps, 1,100 s, 0.0127 days, and cost 9.78 dollars on 16 GPUs at 2 dollars per hour.


# %%
def link(gpu, size, stride, collective):
    """Given. Bytes per second between `size` ranks `stride` apart, in a collective or to the next rank."""
    if size * stride <= gpu["per_server"]:
        return gpu["nvlink"]
    cards = max(1, gpu["per_server"] // stride) if collective else 1  # one per member on a server; a message uses one
    return min(gpu["nvlink"], cards * gpu["network"])


# %% exercise="week16.bill"
def step_seconds(model, layout, gpu):
    """Seconds per step: slots of work and messages, then gradients and weights."""
    ### BEGIN SOLUTION
    sent = sent_bytes(model, layout)
    tp, cp, pp, dp, m = (layout[name] for name in ("tp", "cp", "pp", "dp", "m"))
    work = (8 if layout["recompute"] else 6) * model["parameters"] / (tp * pp) * layout["b"] * model["sequence"] / cp
    messages = sent["tp"] / link(gpu, tp, 1, True) + sent["cp"] / link(gpu, cp, tp, False)
    messages += sent["pp"] / link(gpu, pp, tp * cp * dp, False)
    slot = work / gpu["flops"] + messages / m
    return (m + (pp - 1) / layout["chunks"]) * slot + sent["dp"] / link(gpu, dp * cp, tp, True)
    ### END SOLUTION


def bill(model, layout, gpu, tokens):
    """(MFU, days, dollars) of a training run without failures."""
    ### BEGIN SOLUTION
    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
    per_step = layout["b"] * layout["m"] * layout["dp"] * model["sequence"]
    seconds = step_seconds(model, layout, gpu)
    days = tokens / per_step * seconds / 86400
    return 6 * model["parameters"] * per_step / (seconds * gpus * gpu["peak"]), days, 24 * days * gpus * gpu["dollars"]
    ### END SOLUTION


# %% check="week16.bill" points=2
check("week16.bill", step_seconds, bill)

# %% [markdown]
# DeepSeek-V3's report assumes two dollars per hour of an H800 (arXiv 2412.19437, table 1). What would the 15.6 trillion
# tokens of Llama 3 405B have cost at that price if the GPUs achieve 600 TFLOP/s in matrix products?

# %%
h100 = {"flops": 6e14, "nvlink": 3.3e11, "network": 4.5e10, "per_server": 8, "peak": gpu.bf16_flops}
h100 |= {"memory": planning.usable_bytes(gpu), "dollars": 2.0, "hours": 50_000.0}
mfu, days, dollars = bill(**theirs, gpu=h100, tokens=15.6e12)
seconds = step_seconds(**theirs, gpu=h100)
print(f"{seconds:.2f} s per step, the planner says {planning.seconds_of(llama, trained, gpu).total:.2f} s")
print(f"Meta measured {llama_run.step_seconds:.2f} s")
print(f"MFU {mfu:.1%}, {days:.0f} days, ${dollars / 1e6:.0f} million")

# %% [markdown]
# ## 5 · Predicting published step times
#
# Your step-time model has a constant that no data sheet gives: the FLOP/s that a GPU actually achieves. So fit it to
# one published run, and predict another. Narayanan and others (arXiv 2104.04473, tables 1 and 2) trained GPTs of up to
# a trillion parameters on A100s, with recomputation.
#
# **By hand.** A known step took 10 s. With infinitely fast GPUs your model gives 2 s, for the links. With 100 TFLOP/s
# it gives 18 s, so work takes 16 s. The measured 10 s leave 8 s for work: the GPUs achieved 200 TFLOP/s. Now evaluate
# your model for the other run with 200.
#
# **`estimate(known, run)`**: both are dicts of `model`, `layout` and `gpu` (its links, no `flops`); `known` also has
# the measured `seconds`. Return the seconds of `run`. The check asks for published runs, **within 10%** of the
# measurement, and for made-up runs, within 10% of the model. *About 5 lines.*
#
# <details><summary>Hint</summary>
#
# In your `step_seconds`, only the work depends on `flops`: seconds = a + c/flops. Two calls give a and c.
# </details>


# %% exercise="week16.published"
def estimate(known, run):
    """Seconds per step of `run`, from `known` with its measured seconds."""

    ### BEGIN SOLUTION
    def of(one, flops):
        return step_seconds(one["model"], one["layout"], one["gpu"] | {"flops": flops})

    links = of(known, float("inf"))
    reached = (of(known, 1.0) - links) / (known["seconds"] - links)
    return of(run, reached)
    ### END SOLUTION


# %% check="week16.published" points=2
check("week16.published", estimate)

# %%
rows = {row.id: row for row in validation.read_runs() if row.family == "MEG21" and row.layout.zero == 0}
links = {"nvlink": 2.3e11, "network": 2e10, "per_server": 8}
as_dicts = {
    name: {"model": sizes.model_sizes(row.model), "layout": sizes.layout_sizes(row.layout), "gpu": links}
    | {"seconds": row.step_seconds}
    for name, row in rows.items()
}
known = as_dicts["MEG21-T2-PTD-174.6B-384"]
points = [(name, one["seconds"], estimate(known, one)) for name, one in as_dicts.items()]
figure, ax = figures.new_axes(8, 3.2)
figures.show(figure, figures.draw_against_published(ax, points, what="Step time", unit="s"))

# %% [markdown]
# All of these come from one number and your own formulas. **Which rows have the largest errors, and in which
# direction?** Small models have narrow matrices, on which a GPU achieves less. Your document needs the largest error.
#
# ## 6 · Read real code
#
# Torchrun's agent notices a worker that dies; one that hangs is noticed by the `timeout` of `init_process_group`. Then
# what restarts the run? Open the agent, `torch/distributed/elastic/agent/server/api.py` in your installed PyTorch.
#
# 1. `"not_counted"`: in which `WorkerState` are the workers when `_invoke_run` restarts them *without* using up a
#    restart? A name, such as `"INIT"`.
# 2. `"order"`: which two methods does `_restart_workers` call, in which order? A list.
# 3. `"default"`: how many restarts does a `WorkerSpec` allow by default? A number.

# %% exercise="week16.reading"
reading_answers = {"not_counted": None, "order": None, "default": None}
### BEGIN SOLUTION
reading_answers["not_counted"] = "HEALTHY"  # new nodes wait: membership changes do not count as retries
reading_answers["order"] = ["_stop_workers", "_initialize_workers"]
reading_answers["default"] = 3
### END SOLUTION

# %% check="week16.reading" points=1
check("week16.reading", reading_answers)

# %% [markdown]
# With three restarts, how many hours would the run of section 1 last?
#
# ## 7 · Challenge: the cheapest design
#
# Your task: **train Llama 3 70B on 2 trillion tokens in 45 days.** You may rent 256, 512, 1,024 or 2,048 H100s. What is
# the cheapest design that fits into memory and meets the deadline, including failures?

# %%
brief = {
    "model": sizes.model_sizes(costs.find_model("llama3-70b")),
    "gpu": h100,
    "tokens": 2e12,
    "sequences": 1024,  # in a step
    "days": 45.0,  # at most, with failures
    "clusters": [256, 512, 1024, 2048],
    "storage": 2e11,  # bytes per second, for all GPUs together
    "restart": 600.0,
}

# %% [markdown]
# Start with **your planner from week 10**. It supports tp, pp, dp and b, but not cp, chunks, recomputation or failures.

# %%
from mine import planner  # `layouts`, `fitting`, `ranked`, `step_seconds`: yours

big, sequences = brief["model"], brief["sequences"]
for gpus in brief["clusters"]:
    every = planner.layouts(gpus, h100["per_server"], big["layers"], big["heads"], sequences, (1, 2, 4))
    fast = planner.ranked(planner.fitting(every, big, sequences, h100["memory"]), big, sequences, h100)[0]
    took = planner.step_seconds(big, fast, sequences, h100)
    days = brief["tokens"] / (sequences * big["sequence"]) * took / 86400
    print(f"{gpus:5} GPUs: (tp, pp, dp, b) = {fast}, {took:.1f} s per step, {days:.1f} days")

# %% [markdown]
# **`design(brief)`** returns a dict: `tp`, `cp`, `pp`, `dp`, `b`, `m`, `chunks`, `recompute`, and the numbers
# `gpu_bytes`, `seconds`, `mfu`, `interval`, `goodput`, `days`, `failures`, `dollars`. The last three include failures:
# 30 days of work at a goodput of 90% take 33.3 days. A third of the points is for correct numbers, the rest for dollars
# *within 1% of the minimum*. Rules:
#
# - tp · cp · pp · dp is one of the clusters; tp divides `per_server` and the heads; cp is 1, 2 or 4;
# - pp · chunks divides the layers; chunks is 1 or 2; two chunks need pp > 1 and an m that is a multiple of pp;
# - b is 1, 2 or 4, and dp · b · m equals the sequences; `gpu_bytes` is at most the GPU's `memory`, and `days`, with
#   failures, at most the brief's.
#
# A checkpoint has 14 bytes per parameter and is written at `storage` bytes per second; a GPU's `hours` are the time
# between its failures. `candidates` lists all layouts that the rules allow. *About 12 lines with your own functions.*


# %% exercise="week16.design"
def document(brief, layout):
    """The layout with all its numbers."""
    ### BEGIN SOLUTION
    model, gpu = brief["model"], brief["gpu"]
    gpus = layout["tp"] * layout["cp"] * layout["pp"] * layout["dp"]
    mfu, days, _ = bill(model, layout, gpu, brief["tokens"])
    save, between = 14 * model["parameters"] / brief["storage"], 3600 * gpu["hours"] / gpus
    interval = best_interval(save, between)
    share = goodput(interval, save, between, brief["restart"])
    numbers = {"gpu_bytes": gpu_bytes(model, layout), "seconds": step_seconds(model, layout, gpu), "mfu": mfu}
    numbers |= {"interval": interval, "goodput": share, "days": days / share}
    hours = 24 * days / share * gpus
    return layout | numbers | {"failures": hours / gpu["hours"], "dollars": hours * gpu["dollars"]}
    ### END SOLUTION


def candidates(brief):
    """Given. All layouts that the rules allow, listed by your planner."""
    from itertools import product

    model, most, sequences = brief["model"], brief["gpu"]["per_server"], brief["sequences"]
    for gpus, cp, chunks, recompute in product(brief["clusters"], (1, 2, 4), (1, 2), (False, True)):
        shape = model["layers"], model["heads"], sequences, (1, 2, 4)
        for tp, pp, dp, b in planner.layouts(gpus // cp, most, *shape) if gpus % cp == 0 else ():
            m = sequences // (dp * b)
            if model["layers"] % (pp * chunks) == 0 and (chunks == 1 or (pp > 1 and m % pp == 0)):
                sizes = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "b": b, "m": m}
                yield sizes | {"chunks": chunks, "recompute": recompute}


def design(brief):
    """The cheapest design that fits and meets the deadline."""
    ### BEGIN SOLUTION
    found = [document(brief, layout) for layout in candidates(brief)]
    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
    return min(fit, key=lambda one: one["dollars"])
    ### END SOLUTION


# %% check="week16.design" points=3
check("week16.design", design)

# %%
best = design(brief)
for name, value in best.items():
    print(f"{name:10} {value if isinstance(value, bool) else f'{round(value, 3):,}'}")

# %% [markdown]
# ## 8 · The document
#
# The check graded the numbers; your instructor reads the rest. First see the planner's numbers and the effect of wrong
# assumptions. The planner's matrix products are as fast as yours, but it also counts attention scores, memory traffic
# and an output layer, which makes the last stage the slowest.

# %%
axes = {axis: best[axis] for axis in ("tp", "cp", "pp", "dp")}
shape = {"microbatch": best["b"], "num_microbatches": best["m"], "virtual": best["chunks"], "zero": 1}
again = {"recompute": "full" if best["recompute"] else "none", "sequence_parallel": best["tp"] > 1}
chosen = interview.Setting(costs.find_model("llama3-70b"), costs.Layout(**axes, **shape, **again), gpu, brief["tokens"])
print(f"planner: {chosen.memory.total / costs.GIB:.1f} GiB, {chosen.step.total:.2f} s; mine: {best['seconds']:.2f} s")
print(f"at the planner's step time: {best['days'] * chosen.step.total / best['seconds']:.1f} days of {brief['days']}")
kinds = planning.work_by_kind(chosen.model, chosen.layout, gpu)
kinds["bubble and messages"] = chosen.step.total - sum(kinds.values())
print("planner:", ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in kinds.items()))
work = best["mfu"] * h100["peak"] / h100["flops"] * best["seconds"]
print(f"mine: 6 FLOPs per parameter and token {work:.1f} s, everything else {best['seconds'] - work:.1f} s")
for name, change in {
    "10% fewer FLOP/s": {"flops": 0.9 * h100["flops"]},
    "half the network": {"network": h100["network"] / 2},
    "GPUs fail twice as often": {"hours": h100["hours"] / 2},
}.items():
    worse = document(brief | {"gpu": h100 | change}, {size: best[size] for size in theirs["layout"]})
    print(f"{name:25} {worse['days']:5.1f} days, ${worse['dollars'] / 1e6:.2f} million")
figure, ax = figures.new_axes(7.5, 2.4)
held, usable = figures.memory_rows(chosen.model, [chosen.layout]), planning.usable_bytes(gpu)
title = "My design: the fullest GPU"
figures.show(figure, figures.draw_memory(ax, held, title=title, limit=usable, limit_label="usable", unit="GiB"))

# %% [markdown]
# **The choice**, in six to ten sentences.
#
# | point | for |
# |:---|:---|
# | 1 | the design with its numbers, and why two similar designs lose, with theirs |
# | 1 | how large the error of your numbers may be (sections 5 and 8), and what that means for the deadline |

# %% [markdown] manual="week16.choice" points=2
# ### BEGIN SOLUTION
# The last cells print layout, bytes, seconds, MFU, days and dollars: 512 GPUs, tp 2, cp 4, pp 8 in two chunks, dp 8.
# With 256 GPUs it would be 2% cheaper but take 70 days. With 1,024 it takes 19 days and costs 4% more: the same batch
# leaves each rank half the microbatches, so bubble and gradients weigh more. cp 4 surprised me: with eight key-value
# heads it sends less than tp and stays inside the server.
#
# In section 5 the errors were up to 9% for large models and 26% for small ones, so 36 days mean 33 to 39. The planner
# is 30% slower than my model: 47 days, which misses the deadline. It counts attention scores, memory traffic and the
# output layer on the last stage. I would not commit to 512 GPUs before measuring one layer. Below 470 TFLOP/s I take
# 1,024.
#
# Full marks: own numbers with units; two similar designs with numbers; an error from section 5 carried through to days.
# ### END SOLUTION

# %% [markdown]
# **The risks**, in six to ten sentences.
#
# | point | for |
# |:---|:---|
# | 1 | expected failures, interval, goodput; how a failure is noticed, and what then happens automatically |
# | 1 | two measurements before the money is spent, each with the result that would change the design |

# %% [markdown] manual="week16.risks" points=2
# ### BEGIN SOLUTION
# Failures, interval and goodput are printed above. Its neighbors in a collective notice a dead rank; only a timeout
# detects a silent one, so timeouts must be short compared with a restart. The agent stops all ranks, a spare server
# replaces the broken one, and the ranks rendezvous, load the last checkpoint and repeat at most one interval. The
# allowed number of restarts must be far above the expected failures; the default is not. Loss and norm are compared
# with those before the failure.
#
# First I would measure one layer, forward and backward, on one server in the chosen layout. If it is a tenth slower
# than assumed, the deadline is at risk and I take the larger cluster. Second, all ranks write a full-size checkpoint to
# the real storage during training: if it takes minutes instead of seconds, the interval is minutes longer, and I would
# write asynchronously. I would also pull a cable on purpose once.
#
# Full marks: number of failures with interval and goodput, the chain from failure to resumed step, two measurements
# with the decision that depends on each.
# ### END SOLUTION

# %% [markdown]
# ## 9 · Interview: the oral bank
#
# Nearly fifty questions from all sixteen weeks, with *your* design's numbers and folded answers. Start with three.
# **Answer aloud before you unfold.**

# %%
figures.show_questions(chosen, seed=16, count=3)

# %% tags=["interactive"]
figures.oral_exam(chosen)

# %% [markdown]
# Draw two questions with your student number as `seed`. Write what you would *say* to each: five sentences, a number
# from your own design, and a measurement to confirm it. One point each.

# %% [markdown] manual="week16.interview" points=2
# ### BEGIN SOLUTION
# For example: "When do you write checkpoints?" A checkpoint of one terabyte takes five seconds at 0.2 TB/s. With 512
# GPUs the run fails about every four days, and the square root of twice their product is about half an hour. The curve
# is flat around that, so I would round to a convenient value. Restarts lose more: detection, new ranks, loading. I
# would measure a restart by killing a rank on purpose, from the kill to the first new step.
#
# Full marks for each question: correct in substance, a number from one's own design with its unit, and a measurement.
# ### END SOLUTION

# %% [markdown]
# ## 10 · Recap
#
# <details><summary>Twice as many GPUs: what happens to goodput, at the same R?</summary>
#
# M is halved. The share lost to checkpoints and repeated work grows by √2, the share lost to restarts by 2.
# </details>
#
# <details><summary>Why is the cheapest cluster seldom the fastest one?</summary>
#
# The batch is fixed. With more GPUs, each has fewer microbatches, so bubbles and gradients take a larger share.
# </details>
#
# ## 11 · Take away
#
# > **One.** A design is a dozen numbers with units, an error, and the measurement that could change it.
#
# > **Two.** Failures are normal at this size. Plan for their rate, their cost, and the recovery.
#
# > **Three.** A time model earns trust by predicting a run that it was not fitted to.
#
# ## 12 · Going further
#
# - Daly, *A higher order estimate of the optimum checkpoint interval for restart dumps*, FGCS 22(3), 2006. Look for:
#   where Young's interval is too short, and why R does not affect τ.
# - Llama Team, *The Llama 3 Herd of Models*, arXiv 2407.21783, section 3.3.4. Look for: what failed, and how often a
#   person was needed.


# %% [markdown]
# ## Optional · Review changes, and scale the budget
#
# ### Review: seven changes
#
# In September 2026 a report, written by a language model with a type checker for gradients, named 13 silent bugs in
# Megatron-LM's combinations of axes ([#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452)); not all were
# verified. This hunt is based on five pull requests: [#7466](https://github.com/NVIDIA/Megatron-LM/pull/7466) on
# smoothed labels, [#7481](https://github.com/NVIDIA/Megatron-LM/pull/7481) on a router's count of tokens,
# [#7498](https://github.com/NVIDIA/Megatron-LM/pull/7498) and [#7513](https://github.com/NVIDIA/Megatron-LM/pull/7513)
# on means over split sequences, and [#7530](https://github.com/NVIDIA/Megatron-LM/pull/7530) on a norm. Below are the
# same bugs in our own code, with **changes a to g. Some do what a pull request does. Some only look like it.** Review
# them.
#
# *A norm.* Each attention head has a learned number, its sink. Heads are split over the ranks; everything else is whole
# on each rank. By hand, two ranks have sink gradients 3 and 4, and both have a gradient 2: one process has
# √(9 + 16 + 4) = √29. The found code gives √(9 + 4), because it treats the second rank's sink as a copy. What do a and
# b give?

# %%
SPLIT = {"found": [], "a": ["sinks"], "b": ["sinks", "rest"]}


def norm(change, sinks, rest, *, group=None):
    """The norm of all gradients. Those in SPLIT are split over ranks; others are copies, counted on the first rank."""
    gradients, first = {"sinks": sinks, "rest": rest}, dist.get_rank(group) == 0
    mine = sum((g.square().sum() for name, g in gradients.items() if name in SPLIT[change] or first), torch.zeros(()))
    dist.all_reduce(mine, group=group)
    return mine.sqrt()


# %% [markdown]
# *A mean.* Ranks have parts of the same sequences and different numbers of valid targets. After the backward, gradients
# are averaged over these ranks. By hand: sums of losses 6 and 4, valid targets 3 and 1. One process: 10/4.


# %%
def mean(change, losses, valid, *, group=None):
    """This rank's loss; its gradient is averaged over the ranks."""
    count = valid.sum()
    if change in ("c", "d"):
        dist.all_reduce(count, group=group)
    ranks = dist.get_world_size(group) if change == "d" else 1
    return ranks * (losses * valid).sum() / count


# %% [markdown]
# *A count.* Experts are distributed over these ranks, and each routes its own tokens. A rank's auxiliary loss is scaled
# by its *own* token count and logged with the total. In the found code, the all-reduce of the total is in place, so it
# overwrites the rank's own count. By hand: counts 5 and 3; both ranks should keep their own count and get the total 8.


# %%
def scale(change, count, *, group=None):
    """(this rank's count, the total)."""
    own = count.contiguous() if change == "e" else count
    dist.all_reduce(count, group=group)
    return own, count


# %% [markdown]
# *Smoothed labels.* The vocabulary is split. A share of a word's loss is the mean over all V words; the share is ε ·
# V/(V − 1), as in Megatron. `logp` has this rank's log-probabilities, `hit` that of the target, or 0 if another rank
# has it. By hand, V = 4, ε = 0.1: the share is 0.133.


# %%
def smooth(change, logp, hit, epsilon, *, group=None):
    """The loss of one position, the same number on every rank."""
    target, average = hit.clone(), logp.mean()
    dist.all_reduce(target, group=group)
    if change == "f":
        dist.all_reduce(average, group=group)
        average /= dist.get_world_size(group)
    share = epsilon * len(logp) / (len(logp) - 1)
    return -(1 - share) * target - share * average


# %% [markdown]
# *The word after next.* A second head predicts the word after the next one, on the same parts of sequences. Its valid
# targets (`shifted`) differ from those of the first head (`count`), and a rank may have some of one and none of the
# other. The ranks' results are added, and all gradients are divided by the sum of all `count`. The second head's loss
# should be a mean over *its* targets. By hand, `count` 4 and 0, `shifted` 3 and 1, sums of losses 4 and 2.5: it should
# be 6.5/4.


# %%
def after_next(change, loss_sum, count, shifted, *, group=None):
    """The value that this rank adds."""
    counts = torch.stack([count, shifted])
    if change == "g":
        dist.all_reduce(counts, group=group)
    return loss_sum * counts[0] / counts[1].clamp(min=1)


# %% [markdown]
# Run them on two real ranks. The output shows the values each rank *gets*, not the correct ones. **Work those out for
# one process first.**


# %%
def on_two_ranks():
    of = lambda *values: torch.tensor(values[dist.get_rank()])  # noqa: E731
    losses, valid = of([1.0, 2, 3, 4], [5.0, 6, 7, 4]), of([1.0, 1, 1, 0], [0.0, 0, 0, 1])
    logp, hit = of([-0.5, -1.5], [-2.5, -2.5]), of(-0.5, 0.0)
    seen = {f"norm, {change}": norm(change, of([3.0], [4.0]), torch.tensor([2.0])) for change in ("found", "a", "b")}
    seen |= {f"mean, {change}": mean(change, losses, valid) for change in ("found", "c", "d")}
    seen |= {f"own count, {change}": scale(change, of(5, 3))[0] for change in ("found", "e")}
    seen |= {f"smoothed, {change}": smooth(change, logp, hit, 0.1) for change in ("found", "f")}
    pieces = of(4.0, 2.5), of(4.0, 0.0), of(3.0, 1.0)
    seen |= {f"after next, {change}": after_next(change, *pieces) for change in ("found", "g")}
    return {name: round(value.item(), 4) for name, value in seen.items()}


seen = run(on_two_ranks, ranks=2)
for name in seen[0]:
    print(f"{name:18}", *(rank[name] for rank in seen))

# %% [markdown]
# ### Hunt: `review`
#
# **`review(change, n)`** returns `(accept, axis, symptom)`: True or False; the axis with the bug, one of dp, tp, pp, cp
# and ep; and a ratio, *the wrong code's result divided by that of one process*. The wrong code is the found one if you
# accept the change, and the changed one if you reject it. `n` has the entries of the table, with one number per rank if
# the name is plural:
#
# | change | `n` | symptom of |
# |---|---|---|
# | a, b | `sinks`: squared norms; `rest`: one squared norm | the norm |
# | c, d | `sums` of losses over valid targets, `counts` of these | the loss, after the average over ranks |
# | e | `counts`; `rank` | this rank's own count |
# | f | `logp`: a list per rank; `target`: its index among all words; `epsilon` | the loss |
# | g | `sums`, `counts`, `shifted` | the second head's loss |
#
# For example, change d with sums 6 and 4, counts 3 and 1 fixes the found code, so the symptom is that of the found
# code. It divides by each rank's own count and averages: (6/3 + 4/1)/2 = 3. One process gives 10/4, so the symptom is
# 1.2.
#
# Each bug is a fifth of the points: a and b, c and d, e, f, g. A fifth needs the verdict, the axis and the number of
# all its changes, so a wrong verdict costs the whole fifth. *About 20 lines; do one bug, check it, then the next.*


# %% exercise="week16.review"
def review(change, n):
    """(accept?, axis, the wrong code's result divided by that of one process)."""
    ### BEGIN SOLUTION
    if change in "ab":
        sinks, whole = sum(n["sinks"]), n["rest"] + sum(n["sinks"])
        wrong = n["rest"] + n["sinks"][0] if change == "a" else len(n["sinks"]) * n["rest"] + sinks
        return change == "a", "tp", (wrong / whole) ** 0.5
    if change == "f":
        logp = torch.tensor(n["logp"], dtype=torch.float64).flatten()
        shares = [n["epsilon"] * size / (size - 1) for size in (len(n["logp"][0]), len(logp))]
        losses = [-(1 - share) * logp[n["target"]] - share * logp.mean() for share in shares]
        return False, "tp", (losses[0] / losses[1]).item()
    counts = n["counts"]
    if change == "e":
        return False, "ep", sum(counts) / counts[n["rank"]]
    if change == "c":
        return False, "cp", 1 / len(counts)
    if change == "d":
        local = sum(total / count for total, count in zip(n["sums"], counts, strict=True)) / len(counts)
        return True, "cp", local / (sum(n["sums"]) / sum(counts))
    rows = zip(n["sums"], counts, n["shifted"], strict=True)
    found = sum(total * count / max(1, shifted) for total, count, shifted in rows) / sum(counts)
    return True, "cp", found / (sum(n["sums"]) / sum(n["shifted"]))
    ### END SOLUTION


# %% check="week16.review" points=3 optional=true
check("week16.review", review)

# %% [markdown]
# Give an author a number and a test, not an opinion.
#
# ### Scaling laws: is it the right model?
#
# So far the model and its tokens were given. Kaplan and others (arXiv 2001.08361, table 6) say how to choose them. If
# the compute C = 6·N·D is allocated best, the parameters N grow as C to the power 0.73, and the loss falls as C to the
# power −0.050. **`scaled_run(parameters, tokens, loss, times)`** returns parameters, tokens and loss of the best run
# for `times` the compute, given one that is allocated best. *About 1 line.*
#
# **By hand:** 100 times the compute. 100 to the power 0.73 is 28.8, so N is 28.8 times as large. The rest is left for
# the tokens, 100/28.8 = 3.47 times as many. A loss of 2 falls to 2 · 0.794 = 1.59.


# %% exercise="week16.scaling"
def scaled_run(parameters, tokens, loss, times):
    """(parameters, tokens, loss) of the run that `times` the compute should train."""
    ### BEGIN SOLUTION
    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
    ### END SOLUTION


# %% check="week16.scaling" points=1 optional=true
check("week16.scaling", scaled_run)

# %%
for name, (parameters, tokens) in {"GPT-3": (175e9, 3e11), "Llama 3 405B": (405e9, 15.6e12)}.items():
    times = parameters * tokens / (70e9 * 2e12)
    wanted, read, _ = scaled_run(70e9, 2e12, 2.0, times)
    print(f"{name}: {parameters / 1e9:.0f}B on {tokens / 1e12:.1f}T", end="; ")
    print(f"the law: {wanted / 1e9:.0f}B on {read / 1e12:.1f}T")

# %% [markdown]
# For Llama 3's compute, the law wants more parameters and far fewer tokens. Hoffmann and others (arXiv 2203.15556)
# later found that both should grow equally. **Which does Llama 3 follow?**
