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
# # Week 8 · Zero bubble (零气泡): a backward in two halves
#
# *Core: about 160 minutes; optional: about 40 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** interleaved 1F1B and ZB-H1, and split a backward into its two halves;
# - [ ] **predict** how long each one idles and how much it holds, and see it on ranks that really wait;
# - [ ] **decide** when plain 1F1B is the better choice.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What is the bubble (气泡) of 1F1B with P ranks and M microbatches?</summary>
#
# (P−1)/(M+P−1) of the step: every rank idles for as long as P−1 forwards and P−1 backwards take.
# </details>
#
# <details><summary>How many activations (激活) does rank r hold in 1F1B?</summary>
#
# min(P−r, M): the first rank holds the most, the last rank one.
# </details>
#
# <details><summary>Who waits for a backward?</summary>
#
# The previous stage, which needs the gradient of *its* output. Nothing else waits: the whole week rests on this.
# </details>

# %%
import shardlab
import torch
from shardlab import figures, pipeline_parallel
from shardlab.pipeline_parallel import Durations, builders, parse_schedule, peak_activations, run_emulated, simulate

from autograder import check

dist, nn = torch.distributed, torch.nn

# %% [markdown]
# ## 1 · The problem in numbers
#
# You train with 1F1B on 1024 GPUs: 16 stages, 32 microbatches per step. How many GPUs are idle on average? Guess,
# then run the cell.

# %%
for name, build in [("1F1B", builders.one_f_one_b), ("ZB-H1", builders.zb_h1), ("ZBV", builders.zbv)]:
    timeline = simulate(build(16, 32))
    print(f"{name}: {timeline.bubble:.1%} of the time idle, as if {1024 * timeline.bubble:.0f} of 1024 GPUs were off")

figure, ax = figures.new_axes(8, 4.6)
figures.show(figure, figures.draw_timeline(ax, builders.one_f_one_b(16, 32), name="1F1B"))

# %% [markdown]
# A third of the machine waits. More microbatches would help, but you cannot always have them: beyond some size, a
# larger batch no longer helps training. This week you put the same work into a different *order*.
#
# ## 2 · The picture first
#
# Two ranks, four microbatches. Top: 1F1B, with each backward drawn as two halves, orange and yellow. Bottom: ZB-H1,
# with the same boxes.

# %%
rows = [("1F1B", builders.one_f_one_b(2, 4)), ("ZB-H1", builders.zb_h1(2, 4))]
marks = figures.Marks(phases=True, trace=1, optimizer=1)
figure, axes = figures.new_rows(7, 3.6, 2)
figures.show(figure, figures.draw_timelines(axes, rows, marks=marks))

# %% [markdown]
# Rank 0 waits only for orange boxes, the gradient of rank 1's *input*. Nobody needs the yellow ones, the gradients of
# the weights, before the optimizer step. So rank 1 postpones its first yellow box, rank 0 starts its backward
# earlier, and the last yellow boxes fill time that was idle (gray).
#
# Choose a schedule below, predict, then press *Run it*: it starts real ranks that sleep instead of computing.

# %% tags=["interactive"]
figures.schedule_explorer("zb-h1", run=run_emulated)

# %% [markdown]
# ## 3 · Notation
#
# - **P** ranks, **M** microbatches (微批次), **v** chunks (分块) of the model on each rank.
# - **F** forward; **I** the gradient of a stage's input (输入梯度); **W** the gradient of its weights (权重梯度);
#   **B** = I and W in one pass. In formulas, the letters stand for seconds.
# - A slot is a string: `"1F3"` is the forward of microbatch 3 in stage 1. **A schedule is one list of strings per
#   rank.**
#
# > **Whose B?** The table in DualPipe's README prints (P−1)(F+B−2W) for ZB1P, whose bubble is ZB-H1's, with B the
# > *full* backward. The zero-bubble paper prints the same letters for ZB-H2, with B the *input* gradient alone.
# > Written with I and W, they are clearly two different numbers.
#
# ### Warm-up: two bubbles
#
# **By hand**, two ranks and F = I = W = 1, as in the pictures. In 1F1B, rank 0 idles for 3 units in total: the time
# that rank 1 needs for one F, one I and one W. In ZB-H1, rank 0 does not wait for rank 1's W, which saves one unit.
# It also does one of its Ws in a gap, which saves another. It idles for 1 unit.
#
# Now for P ranks. **`bubbles(num_ranks, forward, input_gradient, weight_gradient)`** returns how long a rank idles in
# one step of 1F1B and of ZB-H1, for M ≥ P and W no longer than F and I. With four ranks and F = I = W = 1, the
# answers are 9 and 3. These are two rows of table 2 of the zero-bubble paper (arXiv 2401.10241). *About 2 lines.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other sizes and durations, other
# > numbers of ranks, chunks and microbatches (including fewer microbatches than ranks, where an exercise allows
# > them), and groups that are only part of the world, such as ranks 0 and 2 of three.


# %% exercise="week08.bubbles"
def bubbles(num_ranks, forward, input_gradient, weight_gradient):
    """Returns the idle seconds of one rank in a step: (1F1B, ZB-H1)."""
    ### BEGIN SOLUTION
    whole = (num_ranks - 1) * (forward + input_gradient + weight_gradient)
    return whole, whole - 2 * (num_ranks - 1) * weight_gradient
    ### END SOLUTION


# %% check="week08.bubbles" points=1
equal = {"num_ranks": 4, "forward": 1.0, "input_gradient": 1.0, "weight_gradient": 1.0}
unequal = {"num_ranks": 3, "forward": 1.0, "input_gradient": 1.2, "weight_gradient": 0.8}
check("week08.bubbles", bubbles, cases=[equal, unequal])

# %% [markdown]
# ## 4 · More chunks: interleaved 1F1B
#
# An older remedy (2021) keeps the backward whole. Each rank holds v chunks: rank r has stages r, r+P, r+2P, … Each
# chunk takes 1/v of the time, so the next *rank* gets its first microbatch v times sooner, and the bubble is divided
# by v.
#
# The order on one rank: microbatches are processed in rounds of P. A round goes through the first chunk, then the
# second, and so on; in the backward, the last chunk comes first. Warm up with (v−1)P + 2(P−1−r) forwards (or all of
# them, if there are fewer); then alternate F and B; then do the remaining backwards.
#
# **By hand**, two ranks, two microbatches, two chunks. Rank 0 has stages 0 and 2, rank 1 has stages 1 and 3:
#
# | | warm-up | F and B alternate | remaining |
# |---|---|---|---|
# | rank 0 | 2 + 2 = 4: `0F0 0F1 2F0 2F1` | | `2B0 2B1 0B0 0B1` |
# | rank 1 | 2 + 0 = 2: `1F0 1F1` | `3F0 3B0 3F1 3B1` | `1B0 1B1` |
#
# **`interleaved(num_ranks, num_microbatches, num_chunks)`** returns the lists of strings, with letters F and B. M is
# a multiple of P. The check compares the time and memory of your order with this one's. *About 12 lines.*
#
# <details><summary>Hint</summary>
#
# For one rank, list all its forwards in order, then all its backwards; interleave the two lists afterwards.
# </details>


# %% exercise="week08.interleaved"
def interleaved(num_ranks, num_microbatches, num_chunks):
    """Returns interleaved 1F1B: for each rank, its slots in order, such as ["0F0", "0F1", "2F0", ...]."""
    ### BEGIN SOLUTION
    rounds = [range(first, first + num_ranks) for first in range(0, num_microbatches, num_ranks)]
    schedule = []
    for rank in range(num_ranks):
        stages = range(rank, num_ranks * num_chunks, num_ranks)
        forwards = [f"{stage}F{m}" for part in rounds for stage in stages for m in part]
        backwards = [f"{stage}B{m}" for part in rounds for stage in reversed(stages) for m in part]
        warmup = min((num_chunks - 1) * num_ranks + 2 * (num_ranks - 1 - rank), len(forwards))
        pairs = zip(forwards[warmup:], backwards, strict=False)
        steady = [slot for pair in pairs for slot in pair]
        schedule.append(forwards[:warmup] + steady + backwards[len(forwards) - warmup :])
    return schedule
    ### END SOLUTION


# %% check="week08.interleaved" points=3
sizes = [(2, 4, 2), (4, 8, 2), (3, 3, 3)]
cases = [{"num_ranks": p, "num_microbatches": m, "num_chunks": v} for p, m, v in sizes]
check("week08.interleaved", interleaved, cases=cases)

# %% [markdown]
# What does it cost? **Predict** idle time, messages, and activations on rank 0 for v = 1, 2, 4. (Here and below, the
# cells use the package's builder instead of yours; `parse_schedule` turns your lists into a schedule of that type.)


# %%
def num_messages(schedule):
    steps = [step for steps in pipeline_parallel.communicate(schedule) for step in steps]
    batches = [step for step in steps if isinstance(step, pipeline_parallel.MessageBatch)]
    return sum(len(batch.messages) for batch in batches) // 2  # both sender and receiver list it


for v in (1, 2, 4):
    schedule = builders.interleaved(4, 8, v) if v > 1 else builders.one_f_one_b(4, 8)
    idle = simulate(schedule, Durations(1 / v, 1 / v, 1 / v)).idle[0]
    held = peak_activations(schedule)[0] / v
    print(f"v = {v}: idle {idle:g}, {num_messages(schedule)} messages, {held:g} activations on rank 0")

# %% [markdown]
# Why does v = 4 hold less than v = 2? Rank 0 warms up with (v−1)P + 2(P−1) chunk forwards and then holds one more,
# each 1/v as large: P + (P−1)/v in total. Plain 1F1B, v = 1, holds P.
#
# > **"P2P volume = activation × microbatches"** is per boundary *and direction*. The backward doubles it, and v
# > chunks have vP−1 boundaries instead of P−1: the 2·8·3 = 48 messages of v = 1 become 2·8·7 and 2·8·15.
#
# ## 5 · The backward has two halves
#
# Take a stage of linear layers. `inputs[0]` is the stage's input, and layer l computes `inputs[l] @ weights[l]`.
# There is a ReLU *between* layers, so `inputs[l+1]` is the ReLU of this product, and none after the last layer.
#
# A gradient g arrives at the output of one linear layer. **I** needs the weights: it is `g @ weight.T`, which then
# passes back through the ReLU before this layer. **W** is `input.T @ g`. It needs neither the weights nor another
# layer's gradient, only the layer's input and the gradient that arrived: two tensors per layer. Keep them, and W can
# wait.
#
# **By hand**, two layers, one row. The input is `[1]`, the first weight is `[[2, -1]]`, the second is `[[3], [4]]`:
#
# | | |
# |---|---|
# | forward | `[1]` → `[2, -1]` → ReLU: `inputs[1]` = `[2, 0]` → `[6]` |
# | I, layer 1: `[1]` arrives | `[1] @ [[3], [4]].T` = `[3, 4]`; the ReLU passed only the 2, so it becomes `[3, 0]` |
# | I, layer 0: `[3, 0]` arrives | `[3, 0] @ [[2, -1]].T` = `[6]`, the gradient of `inputs[0]` |
# | W, at any later time | layer 0: `[1].T @ [3, 0]` = `[[3, 0]]`; layer 1: `[2, 0].T @ [1]` = `[[2], [0]]` |
#
# - **`input_gradient(weights, inputs, gradient)`** returns the gradient of `inputs[0]` and the list `arrived`, which
#   has the gradient of each layer's output. *About 7 lines.*
# - **`weight_gradients(inputs, arrived)`** returns the gradient of each weight. *One line.*


# %% exercise="week08.split-backward"
def input_gradient(weights, inputs, gradient):
    """I. weights[l]: [in, out]; inputs[l]: [rows, in]; gradient: of the output. Returns (gradient, arrived)."""
    ### BEGIN SOLUTION
    arrived = []
    for layer in reversed(range(len(weights))):
        arrived.insert(0, gradient)
        gradient = gradient @ weights[layer].T
        if layer > 0:
            gradient = gradient * (inputs[layer] > 0)
    return gradient, arrived
    ### END SOLUTION


def weight_gradients(inputs, arrived):
    """W. arrived[l]: the gradient of layer l's output. Returns a list with the gradient of each weight."""
    ### BEGIN SOLUTION
    return [layer_input.T @ gradient for layer_input, gradient in zip(inputs, arrived, strict=True)]
    ### END SOLUTION


# %% check="week08.split-backward" points=2
cases = [{"sizes": sizes, "part": part} for sizes in ([2, 3, 2], [4, 6, 5, 3]) for part in "IW"]
check("week08.split-backward", input_gradient, weight_gradients, cases=cases)

# %% [markdown]
# How long do F, I and W take? **Predict** the ratio F : I : W in multiplications, then count them. `ModuleStage`
# splits the backward of any module, using autograd's own graph.

# %%
from torch.utils.flop_counter import FlopCounterMode

mlp = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
stage = pipeline_parallel.ModuleStage(mlp, input_like=torch.empty(32, 64))
halves = {"F": stage.forward, "I": stage.input_gradient, "W": stage.weight_gradient}
for letter, compute in halves.items():
    with FlopCounterMode(display=False) as counter:
        compute(0) if letter == "W" else compute(0, torch.randn(32, 64))
    print(f"{letter}: {counter.get_total_flops():,} operations")

# %% [markdown]
# For linear layers they are equal, which is why papers draw F = I = W. Attention also has matrix products without
# weights. There, W is shorter than I, so there is less work to fill bubbles with.
#
# ## 6 · Gradients that DDP never sees
#
# Pipelines are replicated, and week 2's data parallelism averages every gradient over the replicas. An autograd
# *hook* notifies DDP when a gradient is ready. Here are two replicas. **What does each have in `.grad` after a whole
# backward, and after one in two halves?**


# %%
def gradients_of_two_replicas(is_split):
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2, bias=False))
    rows = torch.full((1, 2), dist.get_rank() + 1.0, requires_grad=True)
    output, weight = model(rows).sum(), model.module.weight
    if is_split:
        torch.autograd.grad(output, rows, retain_graph=True)  # I
        (weight.grad,) = torch.autograd.grad(output, weight)  # W
    else:
        output.backward()
    return weight.grad[0].tolist()


for is_split in (False, True):
    print("two halves" if is_split else "whole     ", shardlab.run(gradients_of_two_replicas, is_split, ranks=2))

# %% [markdown]
# `autograd.grad` returns a gradient without running the hook. There is no error and no warning, but the two replicas
# now train two different models. The split backward in `torch.distributed.pipelining` computes its W with this same
# call.
#
# ### Bug hunt: `weight_gradient`
#
# This function computes W for M microbatches of one layer, on every replica. The hook imitates DDP's: autograd calls
# it after it has written a gradient. The loop writes `weight.grad` itself, so nothing calls the hook.
# (`average_over(group)`, not defined here, makes a hook that all-reduces a gradient and divides. You need no hook.)
#
# ```python
# def weight_gradient(weight, inputs, gradients, *, group):
#     weight = nn.Parameter(weight.clone())
#     weight.register_post_accumulate_grad_hook(average_over(group))
#     weight.grad = torch.zeros_like(weight)
#     for layer_input, gradient in zip(inputs, gradients):
#         weight.grad += layer_input.T @ gradient
#     return weight.grad
# ```
#
# **By hand**, a weight of one number, two replicas, two microbatches. `input.T @ gradient` is 1 and 3 on rank 0, 5
# and 7 on rank 1. The sums over microbatches are 4 and 12, and the mean over the replicas is 8 on both ranks. The
# code above returns 4 on rank 0 and 12 on rank 1.
#
# Fix it: **`weight_gradient(weight, inputs, gradients, *, group)`** sums over the microbatches and returns, on every
# rank of the group, the mean of these sums over the group. **Average with one all-reduce**, after the last microbatch.
# Of `weight`, you need only shape and dtype. *About 5 lines.*


# %% exercise="week08.hooks"
def weight_gradient(weight, inputs, gradients, *, group):
    """inputs[m]: [rows, in], gradients[m]: [rows, out] of microbatch m; returns [in, out], equal on every rank."""
    ### BEGIN SOLUTION
    total = torch.zeros_like(weight)
    for layer_input, gradient in zip(inputs, gradients, strict=True):
        total += layer_input.T @ gradient
    dist.all_reduce(total, group=group)  # what the hook would have done, after the last W
    return total / dist.get_world_size(group)
    ### END SOLUTION


# %% check="week08.hooks" points=2
sizes = {"numbers": 8, "microbatches": 2}
cases = [sizes | group for group in ({"ranks": 2}, {"ranks": 4}, {"ranks": 3, "subgroup": [0, 2]})]
check("week08.hooks", weight_gradient, cases=cases)

# %% [markdown]
# ## 7 · ZB-H1
#
# Keep 1F1B's warm-up, P−1−r forwards, and split every backward. Where should each W go? **By hand**, two ranks, two
# microbatches, F = I = W = 1. Write down three tries, tick by tick:
#
# ```text
# tick               0  1  2  3  4  5  6  7  8
# 1F1B       rank 0  F0 F1 -  -  I0 W0 -  I1 W1
#            rank 1  -  F0 I0 W0 F1 I1 W1
# I is sent  rank 0  F0 F1 -  I0 W0 -  I1 W1
# at once    rank 1  -  F0 I0 W0 F1 I1 W1
# W0 waits   rank 0  F0 F1 -  I0 W0 I1 W1
# on rank 1  rank 1  -  F0 I0 F1 I1 W0 W1
# ```
#
# Each try saves a tick. First, rank 1 sends I0's gradient before it does W0. Second, it does W0 after I1, so I1's
# gradient also leaves a tick earlier. Rank 0's own W0 delays nobody: it fills a tick in which rank 0 has to wait. Rank
# 1's Ws fill the end, where it had nothing left to do.
#
# So before an awaited I, a W is harmful; later it is free. **Why not postpone every W to the end?** Memory: a rank
# holds a microbatch's activations until its **W**. Allow each rank what 1F1B's rank 0 holds, P microbatches.
#
# **Now four ranks.** Right after a forward, how many microbatches of rank r wait for their I? How many of the P places
# does this leave for postponed Ws? Answer for r = 0, 1 and 3 before you read on.
#
# <details><summary>Answer</summary>
#
# P−1−r from the warm-up and one more: P−r. That leaves r places. Rank 0 postpones none, rank 1 one, rank 3 three.
# </details>
#
# The paper gives this memory in bytes (arXiv 2401.10241, section 2; table 2 has its largest value). A microbatch needs
# `before_input` bytes until its I, and fewer, `before_weight`, from I to W, because I frees what W does not need.
# **By hand**, two ranks, 5 and 3 bytes: in 1F1B, rank 0 holds 2 · 5 = 10 and rank 1 holds 5. In ZB-H1, rank 1 at tick 3
# holds microbatch 1, just begun, and the 3 bytes that W0 needs: 5 + 3 = 8. Rank 0 still holds 10.
#
# **`held_bytes(num_ranks, rank, before_input, before_weight)`** returns the most bytes that a rank holds: (in 1F1B, in
# ZB-H1), for M ≥ 2P. *About 2 lines.*


# %% exercise="week08.held"
def held_bytes(num_ranks, rank, before_input, before_weight):
    """Returns the most bytes that one rank holds: (in 1F1B, in ZB-H1)."""
    ### BEGIN SOLUTION
    whole = (num_ranks - rank) * before_input
    return whole, whole + rank * before_weight
    ### END SOLUTION


# %% check="week08.held" points=1
sizes = {"num_ranks": 4, "before_input": 34, "before_weight": 16}
check("week08.held", held_bytes, cases=[sizes | {"rank": rank} for rank in (0, 1, 3)])

# %% [markdown]
# **The rule follows.** Call each I, together with the F before it if one is left, a turn. In its first r turns, rank r
# fills its places and does no W. From then on each turn needs a place, so one W, the oldest, comes after each turn. The
# last r Ws fill the end. Check it on rank 1 of 3, M = 4, which has one forward to warm up and one place for a W:
#
# `1F0`, then the turns `1F1 1I0`, `1F2 1I1 1W0`, `1F3 1I2 1W1`, `1I3 1W2`, and `1W3`.
#
# **By hand**, two ranks and two microbatches: the rule gives the last try again, `0F0 0F1 0I0 0W0 0I1 0W1` and
# `1F0 1I0 1F1 1I1 1W0 1W1`.
#
# **`zb_h1(num_ranks, num_microbatches)`** returns the lists of strings, with letters F, I, W, of a step that takes no
# longer than this one at F = I = W, and in which no rank holds more than P microbatches from F to W. M may be smaller
# than P. *About 12 lines.*


# %% exercise="week08.zb-h1"
def zb_h1(num_ranks, num_microbatches):
    """Returns ZB-H1: for each rank, its slots (F, I and W) in order."""
    ### BEGIN SOLUTION
    schedule = []
    for rank in range(num_ranks):
        warmup = min(num_ranks - 1 - rank, num_microbatches)
        slots = [f"{rank}F{m}" for m in range(warmup)]
        for m in range(num_microbatches):
            if m + warmup < num_microbatches:
                slots.append(f"{rank}F{m + warmup}")
            slots.append(f"{rank}I{m}")
            if m >= rank:
                slots.append(f"{rank}W{m - rank}")
        first_left = max(0, num_microbatches - rank)
        schedule.append(slots + [f"{rank}W{m}" for m in range(first_left, num_microbatches)])
    return schedule
    ### END SOLUTION


# %% check="week08.zb-h1" points=3
sizes = [(2, 4), (4, 8), (5, 3), (5, 9)]
check("week08.zb-h1", zb_h1, cases=[{"num_ranks": p, "num_microbatches": m} for p, m in sizes])

# %% [markdown]
# ## 8 · Predict, then measure
#
# **Which zero?** ZB-H2 warms up twice as long and holds 2P−1 activations. Its paper says that the bubble is zero.
# Look at the figure: is it?

# %%
schedule = builders.zb_h2(4, 8)
timeline = simulate(schedule)
print(f"idle of the whole step {timeline.idle}, idle within the rank's own span {timeline.span_idle}")
for runs_on in (False, True):
    figure, ax = figures.new_axes(8, 2.6)
    marks = figures.Marks(optimizer=1, runs_on=runs_on)
    figures.show(figure, figures.draw_timeline(ax, schedule, name="ZB-H2", marks=marks))

# %% [markdown]
# No rank waits between its first slot and its last: within its **own span** (自身跨度), the bubble is zero. Measured by
# the **makespan** (总时长), every rank idles P−1 units, because it starts late or ends early. If all ranks synchronize
# at the optimizer, you pay for the makespan; ZB-H2 relies on an optimizer that lets ranks continue without waiting.
# Always report both.
#
# **Measure.** Four real ranks, eight microbatches, 30 ms per pass. How far above the prediction will they be?

# %%
cases = {
    "1F1B": (builders.one_f_one_b(4, 8), Durations()),
    "interleaved, v = 2": (builders.interleaved(4, 8), Durations(0.5, 0.5, 0.5)),
    "ZB-H1": (builders.zb_h1(4, 8), Durations()),
    "ZB-H1, W short": (builders.zb_h1(4, 8), Durations(1, 1.2, 0.8)),
    "ZB-H2": (builders.zb_h2(4, 8), Durations()),
    "ZBV, two half stages": (builders.zbv(4, 8), Durations(0.5, 0.5, 0.5)),
}
for name, (schedule, durations) in cases.items():
    timeline, due = run_emulated(schedule, durations), simulate(schedule, durations)
    idle, span = max(timeline.idle), timeline.span_idle[0]
    print(f"{name:20} time {timeline.makespan:5.1f} ({due.makespan:g})", end="   ")
    print(f"idle {idle:4.1f} ({max(due.idle):g})   within rank 0's span {span:4.1f} ({due.span_idle[0]:g})")

# %% [markdown]
# The numbers in parentheses are the simulated ones. The difference is messages and wake-up time, a millisecond or two
# per slot. It grows with shorter passes (ZBV has twice as many slots) and on a busy machine.
#
# **Is it still the same training?** Put a real stage on each of two ranks, and compare a whole backward with one in
# two halves. Week 7's `run_slots` runs both schedules. The function and the schedules are your own if you have passed
# those exercises.

# %%
from mine import pipeline, zero_bubble


def gradients(slots, batches):
    torch.manual_seed(dist.get_rank())
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(stage, m, x):
        y = module(batches[m] if stage == 0 else x)
        return y.square().mean() / len(batches) if stage == 1 else y

    pipeline.run_slots(slots, forward, lambda stage: list(module.parameters()), batches, group=dist.group.WORLD)
    return [parameter.grad for parameter in module.parameters()]


batches = list(torch.randn(4, 16, 8))
lists = pipeline.one_f_one_b(2, 4), zero_bubble.zb_h1(2, 4)
whole, split = (shardlab.run(gradients, slots, batches, ranks=2) for slots in lists)
pairs = zip(whole[0] + whole[1], split[0] + split[1], strict=True)
difference = max((one - two).abs().max().item() for one, two in pairs)
print(f"largest difference of any gradient on any rank: {difference:.1e}")

# %% [markdown]
# ## 9 · Read real code
#
# `record` runs one rank of Megatron-Core's interleaved schedule. The next cell prints the lines that count its warm-up
# and order its chunks; `microbatch_group_size_per_vp_stage` is P.
#
# **`predict_trace(rank, pp, chunks, microbatches, visit)`** returns a dict; a run decides. All ranks form one pipeline:
# `rank` is also the place in it. M is a multiple of P; `visit` counts from 1.
#
# 1. `"before"`: how many forwards of chunks the rank runs before its first backward;
# 2. `"forward"`: `[chunk, microbatch]` of its `visit`-th forward;
# 3. `"backward"`: the chunk of its `visit`-th backward;
# 4. `"messages"`: how many sends and receives it starts.
#
# **By hand**, P = 2, v = 2, M = 4, rank 0: chunk 0 with microbatches 0 and 1, chunk 1 with both, chunk 0 with 2. So the
# fifth forward is `[0, 2]`. It follows a warm-up of 2(P−1) + (v−1)P = 4, so `before` is 5. The first backward is of
# chunk 1. Messages: 8 forwards and 8 backwards receive and send, 32; less 4 receives and 4 sends at the model's first
# stage: 24. *About 7 lines.*

# %%
from autograder.traces import Pipeline, places, record

print(places.FORWARD_CHUNK.path)
for place, after in places.INTERLEAVED_SOURCE:
    print(f"{place.file}, {place.function}:", place.source(after=after), sep="\n")


# %% exercise="week08.reading"
def predict_trace(rank, pp, chunks, microbatches, visit):
    """What Megatron's run shows on this rank: {before, forward, backward, messages}."""
    ### BEGIN SOLUTION
    group, inside = divmod(visit - 1, pp * chunks)
    chunk = inside // pp
    warm_up = 2 * (pp - 1 - rank) + (chunks - 1) * pp
    ends = (rank == 0) + (rank == pp - 1)
    return {
        "before": min(warm_up + 1, microbatches * chunks),
        "forward": [chunk, group * pp + inside % pp],
        "backward": chunks - 1 - chunk,
        "messages": 4 * microbatches * chunks - 2 * microbatches * ends,
    }
    ### END SOLUTION


# %% check="week08.reading" points=2
check("week08.reading", predict_trace)

# %%
layout = Pipeline(world=2, tp=1, pp=2, chunks=2, microbatches=4, s=3, b=1, h=8)
print(record(layout, 0, places.INTERLEAVED))

# %% [markdown]
# ## 10 · Interview: when does 1F1B win?
#
# Splitting is not free. It takes two launches and keeps the graph between them; with recomputation, *both* halves
# repeat the forward. Say that I + W takes `extra` seconds longer than B for every microbatch. You pay for the bubble
# once per step.
#
# **`one_f_one_b_wins_from(num_ranks, weight_gradient, extra)`** returns the smallest M ≥ P for which a step of 1F1B
# takes *less* time than one of ZB-H1. (F and I drop out; no graded tie depends on rounding.) *About 2
# lines.*
#
# **By hand**, two ranks, W = 1, extra = 0.5: ZB-H1 idles F + I − W instead of F + B, with B = I + W − extra. It saves
# 2W − extra = 1.5 per step and costs 0.5 per microbatch. With M = 3 both take the same time, so the answer is 4.
#
# <details><summary>Hint</summary>
#
# Write e for `extra`. 1F1B takes (M+P−1)(F+B), ZB-H1 M(F+B+e) + (P−1)(F+I−W), and I = B + e − W. Subtract.
# </details>


# %% exercise="week08.wins"
def one_f_one_b_wins_from(num_ranks, weight_gradient, extra):
    """Returns the smallest number of microbatches, at least num_ranks, for which 1F1B is faster than ZB-H1."""
    ### BEGIN SOLUTION
    saved = (num_ranks - 1) * (2 * weight_gradient - extra)
    return max(num_ranks, int(saved // extra) + 1)
    ### END SOLUTION


# %% check="week08.wins" points=1
sizes = [(4, 1.0, 0.16), (3, 1.0, 0.25), (4, 1.0, 1.5)]
cases = [{"num_ranks": p, "weight_gradient": w, "extra": e} for p, w, e in sizes]
check("week08.wins", one_f_one_b_wins_from, cases=cases)

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: what ZB-H1 saves and how often; your number of
# microbatches for an `extra` of your choice (such as 5% of I + W); one number that you measured in section 8; holding
# memory until W instead of until I; what to watch when gradients are averaged over replicas.

# %% [markdown] manual="week08.interview" points=2
# ### BEGIN SOLUTION
# ZB-H1 saves 2(P−1)W of idle time once per step. If the split costs e more per microbatch, 1F1B catches up at
# M(e) = (P−1)(2W−e)/e: with 4 ranks, W = 1 and e = 0.16, it wins from 35 microbatches on. So 1F1B (or interleaving)
# wins with many microbatches, with recomputation (I and W both repeat the forward), with custom kernels that compute
# both gradients in one call, and when W is much shorter than I, as in long-context attention.
#
# Measured on four ranks with 8 microbatches: 1F1B idles about 9 of 33 units, ZB-H1 about 3 of 27.
#
# ZB-H1 holds activations until W: up to P on every rank, while later ranks hold fewer in 1F1B. And hooks: DDP and FSDP
# do not see a W computed outside autograd, so I must average the gradients myself after the last W.
#
# Full marks: one saving per step against a cost per microbatch, a number of their own, one measurement, and either
# memory or hooks.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>Which half of a backward can wait, and until when?</summary>
#
# W, until the optimizer step. Until then it keeps the layer's input and the gradient that arrived.
# </details>
#
# <details><summary>P = 4, M = 8, F = I = W. What share of the step does ZB-H1 idle?</summary>
#
# P−1 = 3 of 3M + P − 1 = 27 units: one ninth. 1F1B idles 9 of 33.
# </details>
#
# ## 12 · Take away
#
# > **One.** Other ranks wait only for I. W can fill the bubble with useful work.
#
# > **Two.** A schedule trades off three things: idle time, activations and messages. Compare all three.
#
# > **Three.** If you compute gradients outside autograd's own backward, you must also do what its hooks would have
# > done.
#
# ## 13 · Going further
#
# - Qi et al., *Zero Bubble Pipeline Parallelism*, arXiv 2401.10241. Look for: ZB-H2 in table 2 and figure 3, and how it
#   lets the optimizer proceed before all ranks have synchronized.
# - Qi et al., *Pipeline Parallelism with Controllable Memory*, arXiv 2405.15362. Look for: the building block, and why
#   its length is its memory.

# %% [markdown]
# ## Optional · Half the memory with a V
#
# ### What a V changes
#
# In ZB-H1, rank 0 waits longest for its I, because the loss is at the other end. Cut each stage in half, so that a pass
# takes half as long, and place the halves differently.
#
# **By hand**, two ranks, four half stages, one microbatch, F and I only. Count the ticks from the F of a stage to the
# end of its I; this is how long its activation lives:
#
# | placement | rank 0 | lives | rank 1 | lives | loss on |
# |---|---|---|---|---|---|
# | interleaved (section 4) | stages 0 and 2 | 8 + 4 = 12 | stages 1 and 3 | 6 + 2 = 8 | rank 1 |
# | V | stages 0 and 3 | 8 + 2 = 10 | stages 1 and 2 | 6 + 4 = 10 | rank 0 |

# %%
interleaved_lists = "0F0 2F0 2I0 0I0 0W0 2W0", "1F0 3F0 3I0 1I0 1W0 3W0"
v_lists = "0F0 3F0 3I0 0I0 0W0 3W0", "1F0 2F0 2I0 1I0 1W0 2W0"
pair = ("interleaved", interleaved_lists), ("V", v_lists)
rows = [(name, parse_schedule([slots.split() for slots in lists])) for name, lists in pair]
figure, axes = figures.new_rows(7, 3.4, 2)
figures.show(figure, figures.draw_timelines(axes, rows, marks=figures.Marks(trace=0)))

# %% [markdown]
# In the V, the longest life shares a rank with the shortest, so every rank needs the same memory. The last rank does
# not end the trip: it turns around, passing its microbatch to itself without a message. The loss is on rank 0, which
# can start its I at once.
#
# ### Challenge: half the memory, little bubble
#
# In general, rank r holds stage r on the way down and stage 2P−1−r on the way up. A chunk is half a stage, so its
# activations count half.
#
# **`v_schedule(num_ranks, num_microbatches, max_activations)`** returns the lists of strings (F, I, W) of such a
# schedule. A rank holds each activation from F to W, and at most `max_activations` at a time. Every pass takes 1
# unit; there are 2 to 4 ranks, and M ≥ 2P.
#
# - `max_activations = 2P`, the memory of 1F1B: **ZBV**. The step takes 6M + P − 1.
# - `max_activations = P + 2`, about half: idle no longer than interleaved 1F1B, which idles 3(P−1) and holds nearly
#   twice as much. The step takes at most 6M + 3(P−1).
#
# One way, *about 20 lines*: simulate a clock. At each tick, every rank takes the first pass on its *wish list* that
# is ready. The given `needed("F", stage, microbatch, num_stages)` lists, as strings, the passes that must be done
# before. If no rank finds a pass in a tick, the rule is stuck: raise an error.
#
# How should you order the wishes? When must an F wait although its input has arrived? Fill rank 0's places with stage 0
# alone: what can no longer happen?
#
# <details><summary>Hint: the first wish and the last ones</summary>
#
# The F on the way up. No activation of a microbatch is freed before it has reached the last stage. An F on the way
# down needs two free places, so that one is left for the way up. W comes last, right after the I on the way down, for
# which the fewest passes wait.
# </details>


# %% exercise="week08.v-schedule"
def needed(kind, stage, m, num_stages):
    """Given. Lists the passes that must be done before this one, such as ["1F3"] before 2F3."""
    if kind == "F":
        return [f"{stage - 1}F{m}"] if stage > 0 else []
    if kind == "W":
        return [f"{stage}I{m}"]
    return [f"{stage}F{m}"] + ([f"{stage + 1}I{m}"] if stage < num_stages - 1 else [])


def v_schedule(num_ranks, num_microbatches, max_activations):
    """Returns a V of two chunks per rank that holds at most max_activations half-size activations from F to W."""
    ### BEGIN SOLUTION
    stages, done = 2 * num_ranks, set()
    begun = {(kind, stage): 0 for kind in "FIW" for stage in range(stages)}
    lanes = [[] for _ in range(num_ranks)]
    while len(done) < 3 * stages * num_microbatches:
        tick = []
        for rank, lane in enumerate(lanes):
            down, up = rank, stages - 1 - rank
            room = max_activations - sum(("F" in slot) - ("W" in slot) for slot in lane)
            wishes = [("F", up)] * (room > 0) + [("F", down)] * (room > 1)  # keep one place free for the way up
            wishes += [("I", up), ("I", down), ("W", up), ("W", down)]
            open_wishes = [(*wish, begun[wish]) for wish in wishes if begun[wish] < num_microbatches]
            found = next((one for one in open_wishes if done.issuperset(needed(*one, stages))), None)
            if found:
                kind, stage, m = found
                begun[kind, stage] += 1
                tick.append(f"{stage}{kind}{m}")
                lane.append(tick[-1])
        done.update(tick)
    return lanes
    ### END SOLUTION


# %% check="week08.v-schedule" points=3 optional=true
cases = []
for p, m in [(4, 8), (3, 7), (3, 8)]:
    sizes = {"num_ranks": p, "num_microbatches": m}
    cases.append(sizes | {"max_activations": 2 * p, "part": "ZBV"})
    cases.append(sizes | {"max_activations": p + 2, "part": "half"})
check("week08.v-schedule", v_schedule, cases=cases)

# %% [markdown]
# Memory against time, on four ranks.

# %%
names = ["zbv", "v-half", "v-min"]
for name in names:
    schedule = builders.BUILDERS[name](4, 8)
    held, idle = max(peak_activations(schedule, until=pipeline_parallel.Kind.W)), simulate(schedule).idle[0]
    print(f"{name}: {held} half activations, idle {idle:g} of {simulate(schedule).makespan:g}")
figure, ax = figures.new_axes(8, 2.6)
figures.show(figure, figures.draw_timeline(ax, builders.v_half(4, 8), name="V-Half"))
