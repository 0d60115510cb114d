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
# *3 hours · 2 ranks for the review · no GPU needed*
#
# In fifteen weeks you met formulas and compared them with measurements. Now somebody asks: *which cluster, for how
# long, for how much money, and what will go wrong?* You answer with a document, and every number in it comes from your
# own cells.
#
# After this week you can
#
# - [ ] **compute** a design: memory, bytes, time, MFU, days, dollars, failures, checkpoints, goodput;
# - [ ] **judge** a change to training code by its symptom as a number, before it costs a month on a cluster;
# - [ ] **defend** both, aloud, in front of somebody who asks back.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What are the three things that a layout must pay for?</summary>
#
# Memory (states and activations), bytes on the links, and waiting: bubbles and whatever is not hidden (week 10).
# </details>
#
# <details><summary>Why does a training run stop when one GPU does?</summary>
#
# All ranks meet in collectives. One that is missing makes all others wait (week 1).
# </details>
#
# <details><summary>A loss falls smoothly. Is the training right?</summary>
#
# No. Most bugs of this course let it fall, only not as fast, or towards another goal.
# </details>

# %%
import torch
from shardlab import costs, figures, run
from shardlab.costs import failures, planning, sizes, validation
from shardlab.study import interview

from autograder import check

dist = torch.distributed

# %% [markdown]
# ## 1 · The problem in numbers
#
# Llama 3 405B was trained on 16,384 GPUs. In a snapshot of 54 days the run was interrupted 419 times unexpectedly
# (arXiv 2407.21783, section 3.3.4). Count each interruption as the failure of one GPU. **Guess: after how long does one
# of these GPUs fail? And how long did the run last, on average, until the next interruption?**

# %%
snapshot = failures.LLAMA3
one = failures.mean_seconds_of_one(snapshot["gpus"], snapshot["days"] * 86400, snapshot["failures"])
print(f"one GPU fails every {one / 86400 / 365:.1f} years")
for num_gpus in (1, 8, 1024, 16384, 100_000):
    between = failures.mean_seconds_between(num_gpus, one)
    print(f"{num_gpus:7,} GPUs: a failure every {between / 3600:9.1f} hours")

# %% [markdown]
# Nobody would call such a GPU bad, and yet the run stops eight times per day. A design without failures in it is a
# design for one server.
#
# ### Warm-up: `interruptions`
#
# **`interruptions(num_gpus, hours_of_one, days)`** returns three numbers: hours between two failures of the run (MTBF,
# 平均故障间隔), failures to expect in so many days, and the probability of *a day* without one. Failures come
# independently and without memory: with M hours between failures, nothing happens for t hours with probability
# exp(−t/M).
#
# **By hand.** 8 GPUs, each fails once per 80 hours, 5 days. The run fails every 80/8 = 10 hours, 24 · 5/10 = 12 times,
# and a day passes without a failure with probability exp(−24/10) = 9%. *About 2 lines.*
#
# > **What the grade varies.** Checks show some cases; the grade draws fresh numbers: other models, clusters and prices,
# > one GPU to fifty thousand, every axis alone and all together, two to eight ranks in the review.


# %% exercise="week16.failures"
def interruptions(num_gpus, hours_of_one, days):
    """(hours between failures of the run, failures in so many days, probability of a day without one)."""
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
# A run fails every M = 8 hours. A **checkpoint** (检查点) takes δ = 15 minutes. After τ hours of work you write one;
# what was done since the last one is lost in a failure, half of τ on average. Two costs, as shares of the time:
#
# | τ | writing, δ/τ | work done again, τ/2M | together |
# |---|---|---|---|
# | 30 min | 50% | 3% | 53% |
# | 2 h | 12.5% | 12.5% | **25%** |
# | 8 h | 3% | 50% | 53% |
#
# One falls, the other rises, and their sum is least **where they are equal**: δ/τ = τ/2M, so τ = √(2·δ·M), here √(2 ·
# ¼ · 8) = 2 hours. That is Young's formula of 1974. It depends on no model and no GPU.
#
# **Notation.** τ work between checkpoints, δ to write one (week 15: T and s), M between failures, R from a failure
# until work goes on, all in seconds. A layout is a dict: `tp`, `cp`, `pp`, `dp`, `b` sequences in a microbatch, `m`
# microbatches, `chunks` on a stage, `recompute`. `W[I, J_T]` is split by columns over tp, `A[S_C, H]` by positions over
# cp.
#
# **Goodput** (有效吞吐) is the share of the time that goes into work which need not be repeated. A piece of τ + δ
# seconds that must not be interrupted takes M(e^((τ+δ)/M) − 1) seconds on average, if each failure starts it again
# at once. (Week 15 approximated this.) A restart takes R and may fail too, which stretches everything by e^(R/M). So
# goodput = τ / (M · e^(R/M) · (e^((τ+δ)/M) − 1)) (Daly, 2006). By hand, in hours, with the best τ above and R = 0: 2 /
# (8 · (e^(2.25/8) − 1)) = 77%, where the table says 100% − 25%.
#
# **`best_interval(save, between)`** is Young's τ; **`goodput(interval, save, between, restart)`** is the share. *One
# line each.*


# %% exercise="week16.interval"
def best_interval(save, between):
    """Seconds of work between two checkpoints (Young 1974)."""
    ### BEGIN SOLUTION
    return (2 * save * between) ** 0.5
    ### END SOLUTION


def goodput(interval, save, between, restart):
    """The share of the time that is work which lasts (Daly 2006)."""
    ### BEGIN SOLUTION
    from math import exp, expm1

    return interval / (between * exp(restart / between) * expm1((interval + save) / between))
    ### END SOLUTION


# %% check="week16.interval" points=2
check("week16.interval", best_interval, goodput)

# %% [markdown]
# **Predict, then simulate.** We let Llama 405B store 14 bytes per parameter (weights in bf16; master weights and Adam's
# two moments in fp32), Meta's storage sustains 2 TB/s (section 3.3.1 of the paper), and we assume ten minutes to
# restart. Is it worse to write too often or too seldom? The dots are *simulated*: failures are drawn, and no formula is
# used.

# %%
llama = costs.find_model("llama3-405b")
save = failures.checkpoint_bytes(costs.num_parameters(llama)) / 2e12
mean = failures.mean_seconds_between(16384, one)
taus = [best_interval(save, mean) * factor for factor in (0.1, 0.3, 1, 3, 10)]
played = {tau: failures.played_goodput(tau, save, mean, 600, checkpoints=100_000) for tau in taus}
figure, ax = figures.new_axes(7.5, 3)
title = "Around the best interval the curve is flat, and a restart costs more"
figures.show(figure, figures.draw_goodput(ax, save, mean, 600, played=played, title=title))
print(f"no restart at all: {goodput(taus[2], save, mean, 0):.1%}; no checkpoint cost: {goodput(1, 0, mean, 600):.1%}")

# %% [markdown]
# Three times too long or too short hardly matters; ten times does. The report says that more than 90% of the training
# time was effective. Now look at the last line: **which would you rather make quicker, the checkpoint or the restart?**
#
# ## 3 · What a GPU holds and sends
#
# A model is a dict: `parameters`, `layers`, `hidden`, `heads`, `kv` (width of all keys), `sequence`.
#
# **`gpu_bytes(model, layout)`**, the first stage, bf16:
#
# - states as in week 10: 6 bytes per parameter of the rank, and 12 shared by all ranks that hold the same parameters.
#   These are dp · **cp**, for cp cuts only the sequence;
# - 34 · sequence/cp · b · hidden/tp bytes for each layer in flight: layers/pp · min(pp, m), or with more than one chunk
#   layers · (1 + (pp − 1)/(pp · chunks)). With `recompute` each layer in flight keeps 2 instead of 34, and one more
#   layer has all 34.
#
# **`sent_bytes(model, layout)`**, a dict of `tp`, `cp`, `pp`, `dp`: what a rank of a middle stage sends in a step.
#
# - tp: four ring all-reduces of a bf16 activation per layer and microbatch, six with `recompute`;
# - cp: per layer and microbatch, three times (cp − 1) blocks, four with `recompute`; a block is the keys and values of
#   the rank's positions, over tp;
# - pp, if pp > 1: per microbatch, each chunk sends an activation on and a gradient back, 1/tp of each;
# - dp, over all dp · cp copies: a ring reduce-scatter of float32 gradients and an all-gather of bf16 weights.
#
# **By hand.** 100 parameters, two layers, h = 4, kv = 2, s = 8; tp 1, cp 2, pp 1, dp 1, b = m = chunks = 1, nothing
# recomputed. A rank has 8/2 = 4 positions.
#
# | | |
# |---|---|
# | states: two ranks hold the same parameters | 100 · (6 + 12/2) = 1,200 |
# | activations: 2 layers in flight, 34 bytes for each of 4 · 4 numbers | 2 · 34 · 16 = 1,088 |
# | the same with `recompute` | (2 · 2 + 34) · 16 = 608 |
# | `gpu_bytes` | 2,288 |
# | tp, pp | 0, 0 |
# | cp: keys and values of 4 positions, 2 wide, 2 bytes each: 32 bytes; three times, in 2 layers | 192 |
# | dp: half of 100 · (4 + 2) bytes leaves the rank | 300 |
#
# (Three times: once in the forward; in the backward once more, and their gradients as well.) With tp 2 instead of cp 2
# an activation is 8 · 4 numbers, 64 bytes; a ring all-reduce over two ranks sends 2 · ½ · 64, four of them in 2 layers
# 512. *About 7 lines each.*


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
    """Bytes that a GPU of a middle stage sends in a step, by axis."""
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
# Compare with the course's planner for Meta's own layout (table 4 of the paper). It also counts logits and embeddings;
# yours counts the dropout masks of a GPT, and keeps gradients whole, which Meta sharded (section 3.3.2). **Which of
# these is largest? Does your number fit into 80 GiB?**

# %%
gpu = costs.find_accelerator("h100")
llama_run = next(row for row in validation.read_runs() if row.id == "LLAMA3-405B-16384-cp1")
trained = llama_run.layout
theirs = {"model": sizes.model_sizes(llama), "layout": sizes.layout_sizes(trained)}
whole = planning.peak_memory(llama, trained, gradient_bytes=4).total
print(f"mine {gpu_bytes(**theirs) / costs.GIB:.1f} GiB, the planner {whole / costs.GIB:.1f} GiB")
figure, ax = figures.new_axes(7.5, 2)
title = "Llama 3 405B on 16,384 GPUs: most bytes travel inside a server"
names = {"tp": "tensor, in a server", "cp": "context", "pp": "pipeline", "dp": "data, with ZeRO-1"}
sent = {names[axis]: num_bytes for axis, num_bytes in sent_bytes(**theirs).items()}
figures.show(figure, figures.draw_bars(ax, sent, title=title))

# %% [markdown]
# ## 4 · Time and money
#
# `gpu` is a dict of what a GPU reaches, `flops`, `nvlink` and `network`, its own card (per second), and `per_server`,
# `peak`, `dollars` per hour.
#
# - **`step_seconds(model, layout, gpu)`**. A *slot* is one microbatch on one stage: 6 FLOPs per parameter of the rank
#   and token, 8 with `recompute`; then the microbatch's share of tp, cp and pp. There are m + (pp − 1)/chunks slots.
#   At the end dp. Nothing overlaps. Ranks are numbered with tp innermost, then cp, dp and pp: `link`, below, says how
#   fast each axis is. *About 8 lines.*
# - **`bill(model, layout, gpu, tokens)`** returns MFU (6P FLOPs per token, even if some work is done twice, over what
#   all GPUs could do at their `peak`), days and dollars for so many tokens. *About 5 lines.*
#
# **By hand.** m = 4, pp = 2, one chunk: 4 + 1 = 5 slots. If a slot computes for 1.6 s and its messages take 0.4 s, the
# slots take 10 s; with 1 s of dp at the end a step is 11 s. In the tiny model above, cp's share of a microbatch is 192
# bytes over m = 1, and its 2 ranks fit into a server: NVLink. A step of 64 sequences of 1,000 tokens in 11 s: for 6.4
# million tokens 100 steps, 1,100 s, 0.0127 days; on 16 GPUs for 2 dollars per hour 9.78 dollars.


# %%
def link(gpu, size, stride, collective):
    """Given. Bytes per second among `size` ranks that are `stride` apart, in a collective or to the next rank."""
    if size * stride <= gpu["per_server"]:
        return gpu["nvlink"]
    cards = max(1, gpu["per_server"] // stride) if collective else 1  # of the members on a server; a message has one
    return min(gpu["nvlink"], cards * gpu["network"])


# %% exercise="week16.bill"
def step_seconds(model, layout, gpu):
    """Seconds of a step: slots of work and messages, then gradients and weights."""
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
    """(MFU, days, dollars) of a training without failures."""
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
# Two dollars per GPU hour (of an H800) is what DeepSeek-V3's report assumes (arXiv 2412.19437, table 1). What would the
# 15.6 trillion tokens of Llama 3 405B have cost at that price, if the GPUs reach 600 TFLOP/s in matrix products?

# %%
h100 = {"flops": 6e14, "nvlink": 3.3e11, "network": 4.5e10, "per_server": 8, "peak": gpu.bf16_flops}
h100 |= {"memory": planning.usable_bytes(gpu), "dollars": 2.0, "hours": 50_000.0}
mfu, days, dollars = bill(**theirs, gpu=h100, tokens=15.6e12)
seconds = step_seconds(**theirs, gpu=h100)
print(f"{seconds:.2f} s per step, the planner says {planning.seconds_of(llama, trained, gpu).total:.2f} s")
print(f"Meta measured {llama_run.step_seconds:.2f} s")
print(f"MFU {mfu:.1%}, {days:.0f} days, ${dollars / 1e6:.0f} million")

# %% [markdown]
# ## 5 · A row that others measured
#
# Your clock has a constant that no data sheet gives: the FLOP/s that a GPU really reaches. So take it from one
# published run, and predict another. Narayanan and others (arXiv 2104.04473, tables 1 and 2) trained GPTs of up to a
# trillion parameters on A100s, with activations recomputed.
#
# **By hand.** A known step took 10 s. With infinitely fast GPUs your clock says 2 s: the links. With 100 TFLOP/s it
# says 18 s, so work takes 16 s there. The measured 10 s leave 8 s for work: the GPUs reached 200 TFLOP/s. Now ask your
# clock for the other run with 200.
#
# **`estimate(known, run)`**: both are dicts of `model`, `layout` and `gpu` (its links, no `flops`); `known` also has
# `seconds`, measured. Return the seconds of `run`. How you do it is up to you: the check asks for published
# runs, **within 10%** of what was measured, and for made-up ones, within 10% of the clock, with other microbatches,
# chunks and degrees, on slow GPUs and on fast ones. *About 5 lines.*
#
# <details><summary>Hint</summary>
#
# Of your `step_seconds` only work depends on `flops`: seconds = a + c/flops. Two calls tell a and c.
# </details>


# %% exercise="week16.published"
def estimate(known, run):
    """Seconds of a step of `run`, from `known` with its measured seconds."""

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
# All of them from one number and your own formulas. **Which rows are furthest off, and in which direction?** Small
# models have narrow matrices, on which a GPU reaches less. Write down the largest error: your document needs it.
#
# ## 6 · Review: seven changes
#
# In September 2026 a report named 13 silent bugs in Megatron-LM's combinations of axes
# ([#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452)). A language model with a type checker for gradients
# wrote it, and its author says that he did not verify every one. Five pull requests are behind this hunt:
# [#7466](https://github.com/NVIDIA/Megatron-LM/pull/7466) on smoothed labels,
# [#7481](https://github.com/NVIDIA/Megatron-LM/pull/7481) on a router's count of tokens,
# [#7498](https://github.com/NVIDIA/Megatron-LM/pull/7498) and [#7513](https://github.com/NVIDIA/Megatron-LM/pull/7513)
# on means over split sequences, and [#7530](https://github.com/NVIDIA/Megatron-LM/pull/7530) on a norm. Below are the
# same faults in code of ours, with **changes a to g. Some do what a pull request does. Some only look as if they
# did.** Read them as in a review.
#
# *A norm.* Each attention head has a learned number, its sink; heads are split over the ranks, all else is whole on
# each rank. By hand, two ranks with sinks' gradients 3 and 4, and a gradient 2 that both have: one process has
# √(9 + 16 + 4) = √29. Found is √(9 + 4), as the second rank's sink is taken for a copy. What do a and b give?

# %%
SPLIT = {"found": [], "a": ["sinks"], "b": ["sinks", "rest"]}


def norm(change, sinks, rest, *, group=None):
    """Of all gradients. What SPLIT names is a part on each rank; others are copies, and counted on the first rank."""
    gradients, first = {"sinks": sinks, "rest": rest}, dist.get_rank(group) == 0
    mine = sum((g.square().sum() for name, g in gradients.items() if name in SPLIT[change] or first), torch.zeros(()))
    dist.all_reduce(mine, group=group)
    return mine.sqrt()


# %% [markdown]
# *A mean.* Ranks have pieces of the same sequences, and different numbers of valid targets. After the backward,
# gradients are averaged over these ranks. By hand: sums of losses 6 and 4, valid targets 3 and 1. One process: 10/4.


# %%
def mean(change, losses, valid, *, group=None):
    """The loss of this rank, whose gradient is averaged with those of the others."""
    count = valid.sum()
    if change in ("c", "d"):
        dist.all_reduce(count, group=group)
    ranks = dist.get_world_size(group) if change == "d" else 1
    return ranks * (losses * valid).sum() / count


# %% [markdown]
# *A count.* Experts are spread over ranks, and each rank routes tokens of its own. The auxiliary loss of a rank is
# scaled by its *own* count of tokens, and logged with the total. Found: the all-reduce of the total is in place, so it
# overwrites the own count. By hand: counts 5 and 3; both ranks should keep their own, and know the total 8.


# %%
def scale(change, count, *, group=None):
    """(the own count, the total)."""
    own = count.contiguous() if change == "e" else count
    dist.all_reduce(count, group=group)
    return own, count


# %% [markdown]
# *Smoothed labels.* The vocabulary is split. Of a word's loss a share goes to the mean over all V words; the share is ε
# · V/(V − 1), as in Megatron. `logp` has this rank's log-probabilities, `hit` that of the target, or 0 if another rank
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
# *The word after next.* A second head predicts the word after the next one, over the same pieces of sequences: its
# valid targets (`shifted`) are not those of the first head (`count`), and a rank may have some of one and none of the
# other.
# The ranks' results are added, and all gradients divided by the sum of all `count`. The second head's loss should be a
# mean over *its* targets. By hand, `count` 4 and 0, `shifted` 3 and 1, sums of losses 4 and 2.5: it should be 6.5/4.


# %%
def after_next(change, loss_sum, count, shifted, *, group=None):
    """What this rank adds."""
    counts = torch.stack([count, shifted])
    if change == "g":
        dist.all_reduce(counts, group=group)
    return loss_sum * counts[0] / counts[1].clamp(min=1)


# %% [markdown]
# Run them on two real ranks. The output is what each rank *sees*; what it should see is not printed. **Work it out for
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
# **`review(change, n)`** returns `(accept, axis, symptom)`: True or False; over which of dp, tp, pp, cp and ep the
# fault lies; and a ratio, *what the wrong code gives over what one process gives*. The wrong code is the found one if
# you accept the change, and the changed one if you refuse it. `n` holds what the table lists, with a number per rank
# where the name is plural:
#
# | change | `n` | symptom of |
# |---|---|---|
# | a, b | `sinks`: squared norms; `rest`: one squared norm | the norm |
# | c, d | `sums` of losses over valid targets, `counts` of these | the loss, after the average over ranks |
# | e | `counts`; `rank` | the own count on this rank |
# | f | `logp`: a list for each rank; `target`: its place among all words; `epsilon` | the loss |
# | g | `sums`, `counts`, `shifted` | the second head's loss |
#
# For example, change d with sums 6 and 4, counts 3 and 1: it repairs the found code, so the symptom is that of the
# found code. That divides on each rank by its own count and averages: (6/3 + 4/1)/2 = 3, where one process gives 10/4:
# 1.2.
#
# There are points only if all seven are right. *About 20 lines.*


# %% exercise="week16.review"
def review(change, n):
    """(accept?, axis, what the wrong code gives over what one process gives)."""
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


# %% check="week16.review" points=3
check("week16.review", review)

# %% [markdown]
# Such a check needs two CPU ranks and no GPU. When you refuse a change, give its author a number and a test, not an
# opinion.
#
# ## 7 · Read real code
#
# Who restarts a run? Open `torch/distributed/elastic/agent/server/api.py` of your installed PyTorch, torchrun's agent.
#
# 1. `"not_counted"`: in which `WorkerState` are the workers when `_invoke_run` restarts them *without* using up a
#    restart? A name.
# 2. `"order"`: which two methods does `_restart_workers` call, in which order? A list.
# 3. `"default"`: how many restarts does a `WorkerSpec` allow by default? A number. And torchrun? (Look; not graded.)

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
# With an allowance of three restarts, how many hours does the run of section 1 last?
#
# ## 8 · Challenge: the cheapest design
#
# Your task, as it would be given to you: **train Llama 3 70B on 2 trillion tokens in 45 days.** You may rent 256, 512,
# 1,024 or 2,048 H100s. What is the cheapest design that fits and is in time, with its failures?

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
# Begin with **your planner of week 10**. It knows tp, pp, dp and b, but no cp, chunks, recomputation or failures.

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
# `gpu_bytes`, `seconds`, `mfu`, `interval`, `goodput`, `days`, `failures`, `dollars`, the last three with failures
# included: 30 days of work at a goodput of 90% take 33.3 days. A third of the points is for right numbers, the rest for
# dollars *within 1% of the least*.
# Rules:
#
# - tp · cp · pp · dp is one of the clusters; tp divides `per_server` and the heads; cp is 1, 2 or 4;
# - pp · chunks divides the layers, chunks is 1 or 2; two chunks need pp > 1, and m a multiple of pp;
# - b is 1, 2 or 4, and dp · b · m are the sequences; `gpu_bytes` is at most the GPU's `memory`,
#   and `days`, with failures, at most the brief's.
#
# A checkpoint has 14 bytes per parameter and is written at `storage` bytes per second; a GPU's `hours` are the time
# between its failures.
# *About 25 lines with your own functions; `planner.layouts` lists most of the candidates.*


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
    """Every layout that the rules allow."""
    ### BEGIN SOLUTION
    from itertools import product

    model, most, sequences = brief["model"], brief["gpu"]["per_server"], brief["sequences"]
    for gpus, cp, chunks, recompute in product(brief["clusters"], (1, 2, 4), (1, 2), (False, True)):
        shape = model["layers"], model["heads"], sequences, (1, 2, 4)
        for tp, pp, dp, b in planner.layouts(gpus // cp, most, *shape) if gpus % cp == 0 else ():
            m = sequences // (dp * b)
            if model["layers"] % (pp * chunks) == 0 and (chunks == 1 or (pp > 1 and m % pp == 0)):
                sizes = {"tp": tp, "cp": cp, "pp": pp, "dp": dp, "b": b, "m": m}
                yield sizes | {"chunks": chunks, "recompute": recompute}
    ### END SOLUTION


def design(brief):
    """The cheapest design that fits and is in time."""
    ### BEGIN SOLUTION
    found = [document(brief, layout) for layout in candidates(brief)]
    fit = [one for one in found if one["gpu_bytes"] <= brief["gpu"]["memory"] and one["days"] <= brief["days"]]
    return min(fit, key=lambda one: one["dollars"])
    ### END SOLUTION


# %% check="week16.design" points=3
check("week16.design", design)

# %%
mine = design(brief)
for name, value in mine.items():
    print(f"{name:10} {value if isinstance(value, bool) else f'{round(value, 3):,}'}")

# %% [markdown]
# ## 9 · The document
#
# The check above graded the numbers. What follows is judgement, and your instructor reads it. First what the planner
# says about the same design, and what changes if you are wrong.

# %%
axes = {axis: mine[axis] for axis in ("tp", "cp", "pp", "dp")}
shape = {"microbatch": mine["b"], "num_microbatches": mine["m"], "virtual": mine["chunks"], "zero": 1}
again = {"recompute": "full" if mine["recompute"] else "none", "sequence_parallel": mine["tp"] > 1}
chosen = interview.Setting(costs.find_model("llama3-70b"), costs.Layout(**axes, **shape, **again), gpu, brief["tokens"])
print(f"planner: {chosen.memory.total / costs.GIB:.1f} GiB, {chosen.step.total:.2f} s; mine: {mine['seconds']:.2f} s")
print(f"at the planner's step time: {mine['days'] * chosen.step.total / mine['seconds']:.1f} days of {brief['days']}")
for name, change in {
    "10% fewer FLOP/s": {"flops": 0.9 * h100["flops"]},
    "half the network": {"network": h100["network"] / 2},
    "GPUs fail twice as often": {"hours": h100["hours"] / 2},
}.items():
    worse = document(brief | {"gpu": h100 | change}, {size: mine[size] for size in theirs["layout"]})
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
# | 1 | the design with its numbers, and why two neighbours lose, with theirs |
# | 1 | how far your numbers may be off (sections 5 and 9), and what follows from that for the deadline |

# %% [markdown] manual="week16.choice" points=2
# ### BEGIN SOLUTION
# Layout, bytes, seconds, MFU, days and dollars are those that the last cells print: 512 GPUs, tp 2, cp 4, pp 8 in two
# chunks, dp 8. With 256 GPUs it would be 2% cheaper and takes 70 days. With 1,024 it takes 19 days and costs 4% more:
# the same batch leaves each rank half the microbatches, so bubble and gradients weigh more. cp 4 surprised me: with
# eight key-value heads it sends less than tp and stays inside the server.
#
# In section 5 rows were off by up to 9% for large models and by 26% for small ones, so 36 days mean 33 to 39. The
# planner, which counts slower products and memory traffic, is 30% slower than my clock: 47 days, and that is too
# late. I would not sign for 512 GPUs before one layer was measured. Below 470 TFLOP/s I take 1,024.
#
# Full marks: own numbers with units; two neighbours with numbers; an error from section 5 carried through to days.
# ### END SOLUTION

# %% [markdown]
# **The risks**, in six to ten sentences.
#
# | point | for |
# |:---|:---|
# | 1 | failures to expect, interval, goodput; who notices a failure, and what happens then without a person |
# | 1 | two measurements before the money is spent, each with the result that would change the design |

# %% [markdown] manual="week16.risks" points=2
# ### BEGIN SOLUTION
# Failures, interval and goodput are printed above. A dead rank is noticed by its neighbours in a collective, a silent
# one only by a timeout, so timeouts must be short compared with a restart. The agent stops all ranks, spare servers
# take the place of the broken one, ranks meet again, load the last checkpoint and repeat at most one interval. The
# allowance of restarts must be far above the failures expected; the default is not. Loss and norm are compared with
# those before.
#
# Before: one layer forward and backward on one server in the chosen layout. If it reaches a tenth less than assumed,
# the deadline is in danger and I take the larger cluster. Second, a checkpoint of full size written by all ranks to the
# real storage, while training goes on: if it takes minutes and not seconds, the interval is minutes longer, and I would
# write asynchronously. I would also pull a cable on purpose once.
#
# Full marks: numbers of failures with interval and goodput, the chain from failure to resumed step, two measurements
# with the decision that hangs on each.
# ### END SOLUTION

# %% [markdown]
# ## 10 · Interview: the oral bank
#
# Nearly fifty questions from all sixteen weeks, asked with *your* design's numbers; answers are folded, and each number
# in them is computed by the formulas that you know. Three to begin with. **Say your answer aloud before you unfold
# it.**

# %%
figures.show_questions(chosen, seed=16, count=3)

# %% tags=["interactive"]
figures.oral_exam(chosen)

# %% [markdown]
# Draw two questions with your student number as `seed`. Write what you would *say* to each: five sentences, a number of
# your own design, and what you would measure to be sure. One point each.

# %% [markdown] manual="week16.interview" points=2
# ### BEGIN SOLUTION
# For example: "When do you write checkpoints?" A checkpoint of one terabyte takes five seconds at 0.2 TB/s. With 512
# GPUs the run fails about every four days, so twice the one times the other, under the root, is about half an hour.
# Around that the curve is flat, so I would round to what is easy to operate. The larger loss is the restart: detection,
# new ranks, loading. I would measure a restart by killing a rank on purpose, from the kill to the first new step.
#
# Full marks for each question: right in substance, a number of the own design with its unit, and a measurement.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>Twice as many GPUs: what happens to goodput, at the same R?</summary>
#
# M is half. The share that is lost to checkpoints and repeated work grows by √2, that of restarts by 2.
# </details>
#
# <details><summary>Why is the cheapest cluster seldom the fastest one?</summary>
#
# The batch is fixed. More GPUs mean fewer microbatches each, so bubbles and gradients weigh more in every GPU hour.
# </details>
#
# <details><summary>A change makes a NaN go away. What do you still ask?</summary>
#
# What would one process give? A clamp hides a division by zero, and the mean may still be weighted wrongly.
# </details>
#
# ## 12 · Take away
#
# > **One.** A design is a dozen numbers with units, an error, and the measurement that could change it.
#
# > **Two.** Failures are not exceptions at this size. Plan their rate, their cost, and the way back.
#
# > **Three.** Review with one process in mind: who counts this twice, who divides again, whose copy is it?
#
# ## 13 · Going further
#
# - Daly, *A higher order estimate of the optimum checkpoint interval for restart dumps*, FGCS 22(3), 2006. Look for:
#   where Young's formula is too short, and why R does not matter for τ.
# - Llama Team, *The Llama 3 Herd of Models*, arXiv 2407.21783, section 3.3.4. Look for: what failed, and how often a
#   person was needed.
# - Megatron-LM [#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452). Look for: a finding that none of your
#   sixteen weeks would have caught, and which check would.
#
# **An experiment, not graded.** At which number of GPUs does goodput fall below one half, if a restart takes ten
# minutes? And with a restart of one minute?
