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
# # Week 4 · FSDP and ZeRO-3 (全切片数据并行): gather, use, free
#
# *Core: about 150 minutes; optional: about 50 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a training step in which no rank ever holds the whole model;
# - [ ] **predict** its bytes and its peak memory, and confirm both on real ranks;
# - [ ] **decide** how to pay for the extra gather: with memory, precision, or seconds.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does a ZeRO-2 rank still hold in full?</summary>
#
# The weights, 2 bytes per parameter. Gradients and optimizer state are split (week 3).
# </details>
#
# <details><summary>Which collective joins N slices, and which one sums N full tensors into slices?</summary>
#
# All-gather, and reduce-scatter. Each rank sends (N−1)/N · S bytes in either.
# </details>
#
# <details><summary>Why does a slice need padding?</summary>
#
# An all-gather needs equal slices, and P is seldom divisible by N. A slice has ⌈P/N⌉ numbers.
# </details>

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import costs, data_parallel, figures, meter

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# 65 billion parameters, 64 GPUs of 80 GB. Data parallelism keeps 16 bytes of model states (模型状态) per parameter on
# every GPU. ZeRO-2 splits 14 of them. Is that enough? Guess, then run.

# %%
parts = ("parameters", "gradients", "optimizer")
rows = {}
print(f"DDP: {costs.zero_state_bytes(65e9, 64, 0).total / 1e9:.0f} GB on every GPU")
for stage, name in enumerate(("ZeRO-1", "ZeRO-2", "ZeRO-3"), start=1):
    held = costs.zero_state_bytes(65e9, 64, stage)
    rows[name] = {part: getattr(held, part) for part in parts}
figure, ax = figures.new_axes(8, 2.4)
title = "65B parameters on 64 GPUs: only ZeRO-3 fits"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# ZeRO-2's two bytes per parameter are already too much, and more GPUs do not help: only what is split shrinks. So split
# the weights, too. But a layer cannot compute with 1/64 of its weights.
#
# ### Warm-up: how many times smaller?
#
# > **A correction.** Lecture notes (ours included) say "ZeRO-3 saves about 3N×". It saves **N×**: 16P becomes 16P/N.
# > And it shrinks only the *model states*: activations (激活) stay as large as before.
#
# **`zero3_saves(num_parameters, num_ranks, activation_bytes)`** returns two ratios of DDP to ZeRO-3: one for the
# model states, and one for states and activations together. By hand, with 100 parameters, 4 ranks, and 400 bytes of
# activations: 1600/400 = 4, and 2000/800 = 2.5. *About 2 lines.*
#
# > **Fresh cases.** Grading adds cases: other numbers and sizes (not always divisible by N), 1 to 8 ranks, and groups
# > that are only a part of the world. All weights are float32.


# %% exercise="week04.n-times"
def zero3_saves(num_parameters, num_ranks, activation_bytes):
    """(ratio of model states, ratio of states and activations) of DDP to ZeRO-3, with 16 bytes per parameter."""
    ### BEGIN SOLUTION
    whole, cut = 16 * num_parameters, 16 * num_parameters / num_ranks
    return whole / cut, (whole + activation_bytes) / (cut + activation_bytes)
    ### END SOLUTION


# %% check="week04.n-times" points=1
cases = [
    {"num_parameters": 7 * 10**9, "num_ranks": 64, "activation_bytes": 10**10},
    {"num_parameters": 10**9, "num_ranks": 8, "activation_bytes": 0},
]
check("week04.n-times", zero3_saves, cases=cases)

# %% [markdown]
# ## 2 · The picture first
#
# A layer needs its weights only while it computes. Take two ranks and two layers of four numbers each; a rank owns
# one half of each layer. The table shows what rank 0 holds and what the link carries:
#
# | | layer A | layer B | on the link |
# |---|---|---|---|
# | at rest | `[ 1 2 │ · · ]` | `[ 5 6 │ · · ]` | |
# | **gather** A, **use** it: forward | `[ 1 2 │ 3 4 ]` | `[ 5 6 │ · · ]` | half of A |
# | **free** A, gather and use B | `[ 1 2 │ · · ]` | `[ 5 6 │ 7 8 ]` | half of B |
# | backward of B, **reduce** its gradient | `[ 1 2 │ · · ]` | `[ 5 6 │ 7 8 ]` | half of B's gradient |
# | free B, gather A again, backward, reduce | `[ 1 2 │ 3 4 ]` | `[ 5 6 │ · · ]` | half of A, half of its gradient |
# | free A | `[ 1 2 │ · · ]` | `[ 5 6 │ · · ]` | |
#
# The table leaves out that in the backward a unit's **full gradient** exists next to its full weights.
#
# The weights that are gathered together form a **unit** (单元), usually one transformer block. A unit is sent three
# times: gathered for the forward, gathered for the backward (unless it stays, like the last one, B), and reduced as a
# gradient.
#
# ## 3 · Notation
#
# - **N** ranks, **P** parameters, **L** units, **S** bytes of all weights.
# - **`W[I_X]`** → **`W[I]`** is a gather. The way back costs nothing: free the parts that are not yours.
#   **`G[I]{U_X}`** → **`G[I_X]`** is the reduce-scatter of a gradient.
# - **Prefetch** (预取) d: while a unit computes, the next d units are already being gathered.
#
# Here is a step of three units as a timeline. A gather G and a forward F take one slot, a backward B two.
# Reduce-scatters are left out.
#
# ```
# slot          0    1    2    3    4    5    6    7    8    9    10   11   12   13
# prefetch 0: 14 slots, 5 of waiting
#   link       [G0 ]     [G1 ]     [G2 ]               [G1 ]          [G0 ]
#   GPU             [F0 ]     [F1 ]     [F2 ][   B2   ]     [   B1   ]     [   B0   ]
# prefetch 1: 10 slots, 1 of waiting
#   link       [G0 ][G1 ][G2 ]     [G1 ]     [G0 ]
#   GPU             [F0 ][F1 ][F2 ][   B2   ][   B1   ][   B0   ]
# ```
#
# With prefetch a gather hides behind the unit before it, except the first one. (Why only one G2?)
#
# ## 4 · When to gather and when to free, as data
#
# A step is 2L *passes*: units 0 … L−1 forward, then L−1 … 0 backward.
#
# **`gather_plan(num_units, prefetch)`** returns a list of strings such as `"gather 3"`, `"forward 3"`, `"backward 3"`
# and `"free 3"`. A gather string only *starts* the gather, which runs in parallel with what follows; a pass waits
# until its unit is gathered. At any time only the units of the current pass and of the next `prefetch` passes may be
# gathered, and at the end none. So free other units, in any order, before you gather. Keep a unit that one of these
# passes needs. *About 11 lines.*
#
# The check simulates your plan: it counts the units held, the gathers, and the seconds spent waiting.
#
# **By hand**, two units, prefetch 0: gather 0, forward 0, free 0, gather 1, forward 1, backward 1, free 1, gather 0,
# backward 0, free 0.
#
# **Predict first:** how many gathers does a step of L units need with prefetch 0, and how many with prefetch 2?
#
# <details><summary>Hint 1: in words</summary>
#
# Write the passes as one list of unit numbers. Slide a window of `prefetch + 1` passes over it.
# </details>
#
# <details><summary>Hint 2: two lines missing</summary>
#
# ```python
# passes = [*range(num_units), *reversed(range(num_units))]
# plan, held = [], set()
# for place, unit in enumerate(passes):
#     for ahead in passes[place : place + prefetch + 1]:
#         ...  # gather it, unless it is held
#     plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
#     ...  # free what is not in the window of the next pass
# ```
# </details>


# %% exercise="week04.plan"
def gather_plan(num_units, prefetch):
    """The events of one step in order, such as "gather 3", "forward 3", "backward 3" and "free 3"."""
    ### BEGIN SOLUTION
    passes = [*range(num_units), *reversed(range(num_units))]
    plan, held = [], set()
    for place, unit in enumerate(passes):
        for ahead in passes[place : place + prefetch + 1]:
            if ahead not in held:
                plan.append(f"gather {ahead}")
                held.add(ahead)
        plan.append(f"{'forward' if place < num_units else 'backward'} {unit}")
        done = held - set(passes[place + 1 : place + prefetch + 2])
        plan += [f"free {other}" for other in sorted(done)]
        held -= done
    return plan
    ### END SOLUTION


# %% check="week04.plan" points=3
cases = [{"num_units": 3, "prefetch": 0}, {"num_units": 4, "prefetch": 1}]
check("week04.plan", gather_plan, cases=cases)

# %%
# The last unit's two passes follow each other, so it is gathered once. With prefetch 2 the one before it stays, too.
for prefetch in (0, 2):
    gathers = sum(event.startswith("gather") for event in gather_plan(8, prefetch))
    print(f"8 units, prefetch {prefetch}: {gathers} gathers")
# Step through your plan: own slices are light blue, gathered ones dark.
frames = figures.gather_frames(gather_plan(3, 1), num_ranks=4)
figures.animate("FSDP gathers, uses and frees each unit", frames)

# %% [markdown]
# ## 5 · Gather, use, free on real ranks
#
# Two helpers are given. `mine.zero` is what you wrote in week 3.


# %%
from mine import zero

pad = torch.nn.functional.pad


def gathered(shard, shape, group):
    """Gather all ranks' slices into one weight of this shape, a torch.Size."""
    whole = shard.new_empty(dist.get_world_size(group) * len(shard))
    dist.all_gather_single(whole, shard, group=group)
    return whole[: shape.numel()].view(shape)


def mean_slice(gradient, group):
    """This rank's slice of the mean of all ranks' gradients. Calls week 3's, for one tensor."""
    return zero.mean_slice([gradient], group=group)


# %% [markdown]
# The model: unit u is `x = torch.tanh(x @ weight)` with a square weight. This rank holds the slice `shards[u]` of it.
#
# **By hand**, 2 ranks, one unit with the weight `[[1, 2], [3, 4]]`. Rank 0 holds `[1, 2]`, rank 1 `[3, 4]`. Both
# gather the full weight, compute tanh(x @ weight) with their *own* x, and free the weight. In the backward both
# gather it again, and each computes its own full gradient, say `[[2, 0], [0, 4]]` on rank 0 and `[[4, 2], [2, 0]]` on
# rank 1. After the reduce-scatter rank 0 holds the mean of the first row, `[3, 1]`, and rank 1 that of the second,
# `[1, 2]`.
#
# **`zero3_step(shards, x, gradient, *, group)`** runs forward and backward and returns `(output, slices)`. `gradient`
# is the gradient of this rank's loss with respect to its output; `slices[u]` is this rank's slice of the mean
# gradient of weight u, padding included. Gather a unit for its forward, free it, gather it again for its backward,
# and reduce-scatter its gradient before you continue with the next unit. Handle each unit separately. The last may be
# gathered once or twice. Leave the inputs unchanged. *About 13 lines.*
#
# Autograd gets in the way here: `x @ weight` *saves* the weight for its backward, and what autograd saves is not
# freed. So run the forward without autograd. In the backward, run the layer once more with autograd, and call its
# backward right away. (Week 6 calls this recomputation.)
#
# **Predict first:** with 64 units of 0.8 MB on 4 ranks, what is a rank's peak above its slices, in the forward and in
# the backward?
#
# <details><summary>Hint 1: what the forward leaves behind</summary>
#
# A list with the input of each layer.
# </details>
#
# <details><summary>Hint 2: the backward, one line missing</summary>
#
# ```python
# for shard, x in zip(reversed(shards), reversed(inputs)):
#     leaf = x.detach().requires_grad_()
#     weight = gathered(shard, shape, group).requires_grad_()
#     torch.tanh(leaf @ weight).backward(gradient)
#     ...  # keep this rank's slice
#     gradient = leaf.grad
# ```
# </details>


# %% exercise="week04.step"
def zero3_step(shards, x, gradient, *, group):
    """Forward and backward with one full weight at a time. Returns (output, mean gradient slices by unit)."""
    ### BEGIN SOLUTION
    shape, inputs, slices = torch.Size([x.shape[1], x.shape[1]]), [], []
    with torch.no_grad():
        for shard in shards:
            inputs.append(x)
            x = torch.tanh(x @ gathered(shard, shape, group))
    output = x
    for shard, x in zip(reversed(shards), reversed(inputs), strict=True):
        leaf = x.detach().requires_grad_()
        weight = gathered(shard, shape, group).requires_grad_()
        torch.tanh(leaf @ weight).backward(gradient)
        slices.insert(0, mean_slice(weight.grad, group))
        gradient = leaf.grad
    return output, slices
    ### END SOLUTION


# %% check="week04.step" points=3
values = {"ranks": 4, "width": 3, "units": 2, "subgroup": [1, 3], "part": "values"}
memory = {"ranks": 4, "width": 448, "units": 64, "part": "memory"}
check("week04.step", zero3_step, cases=[values, memory])

# %% [markdown]
# The second case reads the peak memory of your process from the kernel, so it does not help to gather everything and
# free it at the end. In the forward one full weight exists, 0.8 MB; in the backward also its full gradient, 1.6 MB in
# total, not counting copies and what a loop's variables still hold. So **the backward sets the peak**. For 65B
# parameters in 80 blocks on 64 GPUs, in bf16 with prefetch 1:

# %%
unit, held = 2 * 65e9 / 80, costs.zero_state_bytes(65e9, 64, 3)  # bytes of one block in bf16
rows = {}
for name, weights, gradients in [("at rest", 0, 0), ("forward", 2, 0), ("backward", 2, 1)]:
    rows[name] = {"parameters": held.parameters + weights * unit, "gradients": held.gradients + gradients * unit}
    rows[name] |= {"optimizer": held.optimizer}
figure, ax = figures.new_axes(8, 2.2)
title = "Two full blocks in the forward, plus one block's full gradient in the backward"
figures.show(figure, figures.draw_memory(ax, rows, title=title))

# %% [markdown]
# ## 6 · Predict, then measure: three times the model
#
# DDP sends 2(N−1)/N · S. ZeRO-3 needs two gathers and a reduce-scatter, **3(N−1)/N · S: 1.5 times DDP**. (`Zero3`
# gathers every unit twice, even the last, which your plan keeps.) The peak of the *weights* is one unit and the d units
# ahead; in the backward a unit's gradient comes on top. **What happens to both if you make the whole model one unit?**
# Commit to an answer, then run. `most` is the most weights that a rank had gathered at once, without gradients.


# %%
def bytes_and_peak(layers_per_unit, prefetch):
    layers, k = [torch.nn.Linear(64, 64) for _ in range(6)], layers_per_unit
    model = torch.nn.Sequential(*(torch.nn.Sequential(*layers[i : i + k]) for i in range(0, 6, k)))
    zero = data_parallel.Zero3(model, torch.optim.SGD, units=list(model), prefetch=prefetch, lr=0.1)
    most = []
    for layer in layers:
        layer.register_forward_pre_hook(
            lambda *_: most.append(sum(vector.full.untyped_storage().nbytes() for vector in zero.vectors))
        )
    for _ in range(2):  # the first step learns the order of the units
        with meter.record() as bill:
            model(torch.ones(4, 64)).sum().backward()
            zero.step()
        zero.zero_grad()
    return bill.sent_bytes, max(most)


# %%
num_bytes = 4 * 6 * (64 * 64 + 64)
print(f"S = {num_bytes:,} bytes; DDP sends {costs.traffic.zero_bytes(2, num_bytes, 0):,.0f}")
wraps = {}
for layers, prefetch in [(1, 0), (1, 1), (1, 2), (6, 1)]:
    due = costs.traffic.zero_bytes(2, num_bytes, 3), min((1 + prefetch) * layers, 6) * num_bytes // 6
    sent, most = shardlab.run(bytes_and_peak, layers, prefetch, ranks=2)[0]
    name = f"{'1 unit' if layers == 6 else f'{6 // layers} units'}, prefetch {prefetch}"
    print(f"{name}: predicted to send {due[0]:,.0f}, sent {sent:,.0f};", end=" ")
    print(f"predicted to hold {due[1]:,} at most, held {most:,}")
    wraps[name] = most
figure, ax = figures.new_axes(7, 2.2)
figures.show(figure, figures.draw_bars(ax, wraps, title="One unit for the model gathers all weights at once"))

# %% [markdown]
# The prediction of the bytes is exact. **One unit around the whole model frees nothing when it matters**: each pass
# gathers it before its first layer and frees it after its last. The loss is right, the slices are small, but the peak
# is that of ZeRO-2. This is what `FSDP(model)` does without a wrapping policy, and `fully_shard(model)` without a call
# for each block.
#
# ## 7 · A weight that two units share
#
# GPT's embedding and its output layer often share one weight. In the chain below, layer i uses weight `uses[i]`, and
# gathered weights stay for the backward (`reshard_after_forward=False`). The output is right. **Where would you look
# for a bug? Run, and look at both lines.**


# %%
class GatherWithABug(torch.autograd.Function):
    """Forward: gather the full weight. Backward: average its gradient into the slice."""

    @staticmethod
    def forward(ctx, shard, shape, group):
        ctx.shard, ctx.group = shard, group
        return gathered(shard, shape, group)

    @staticmethod
    def backward(ctx, gradient):
        ctx.shard.grad = mean_slice(gradient, ctx.group)
        return None, None, None


def step_with_a_bug(shards, shapes, uses, x, gradient, *, group):
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ GatherWithABug.apply(shards[number], torch.Size(shapes[number]), group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]


# %%
torch.manual_seed(0)
weights, batch = [torch.randn(4, 4) / 2 for _ in range(2)], torch.randn(3, 4)


def norms_of(uses):
    shards = [weight.flatten().chunk(2)[dist.get_rank()] for weight in weights]
    output, slices = step_with_a_bug(shards, [[4, 4]] * 2, uses, batch, torch.ones(3, 4), group=dist.group.WORLD)
    return output.norm(), [one.square().sum() for one in slices]


for uses in ([0, 1], [0, 1, 0]):
    leaves, x = [weight.clone().requires_grad_() for weight in weights], batch
    for number in uses:
        x = torch.tanh(x @ leaves[number])
    x.sum().backward()
    (norm, first), (_, second) = shardlab.run(norms_of, uses, ranks=2)
    ratios = [float((a + b).sqrt() / w.grad.norm()) for a, b, w in zip(first, second, leaves, strict=True)]
    print(f"layers use weights {uses}: output {norm / x.norm():.3f}, gradients {[round(ratio, 3) for ratio in ratios]}")

# %% [markdown]
# All ratios should be 1.000. The shared weight learns from only one of its uses, and the loss does not show it.
# FSDP2 trained tied weights wrongly, too: with a vocabulary not divisible by N, the last rank's slice of a weight
# shared by two groups was *never updated* (pytorch issue 176076, 2026). Since torch 2.13 it raises an error.
#
# **By hand:** one rank uses the weight twice, and the uses have gradients `[1 1]` and `[2 2]`. The weight's gradient
# is `[3 3]`. The class above *assigns* to `.grad`, so the second call overwrites the result of the first.
#
# ### Bug hunt: `tied_step`
#
# **`Gather`** is the class above without the bug: write its two methods. `Gather.apply(shard, shape, group)` returns
# the full weight of any `shape`, a `torch.Size`. If its size is not divisible by N, the slices end with padding. The
# step is given and calls your class once for each use. *About 3 lines; one of them was the bug.*


# %% exercise="week04.tied"
class Gather(torch.autograd.Function):
    """Forward: gather the full weight. Backward: average its gradient into the slice."""

    @staticmethod
    def forward(ctx, shard, shape, group):
        """The full weight of this shape, gathered from all ranks' slices."""
        ### BEGIN SOLUTION
        ctx.shard, ctx.group = shard, group
        return gathered(shard, shape, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        """One gradient for each argument of `forward`, or None for arguments that need none."""
        ### BEGIN SOLUTION
        return zero.mean_slice([gradient], group=ctx.group), None, None  # autograd sums the gradients of all uses
        ### END SOLUTION


def tied_step(shards, shapes, uses, x, gradient, *, group):
    """Given: layer i uses weight uses[i]. Returns (output, mean gradient slices by weight)."""
    shards = [shard.clone().requires_grad_() for shard in shards]
    for number in uses:
        x = torch.tanh(x @ Gather.apply(shards[number], torch.Size(shapes[number]), group))
    x.backward(gradient)
    return x.detach(), [shard.grad for shard in shards]


# %% check="week04.tied" points=2
cases = [{"ranks": 2, "width": 3, "uses": [0, 1]}, {"ranks": 4, "width": 3, "uses": [0, 1, 0, 0], "subgroup": [1, 3]}]
cases += [{"ranks": 2, "width": 3, "inner": 4, "uses": [0, 1, 0]}, {"ranks": 1, "width": 3, "uses": [0, 0]}]
check("week04.tied", tied_step, cases=cases)

# %% [markdown]
# > **Two uses, twice the bytes.** Your corrected step gathers and reduces the shared weight once for each use; `Zero3`
# > gathers it once and keeps it.
#
# ## 8 · Pay with precision: gather in eight bits
#
# Two thirds of the bytes come from gathers. ZeRO++ (qwZ) sends weights as int8 codes (量化), with one scale
# (缩放因子) per block: a quarter of the bytes of fp32, half of bf16's. With one scale for all, a single large number
# would set it.
#
# **By hand:** the shard `[0.5, −1, 0.25, 0]` as one block. The largest is 1, so the scale is 1/127; the codes are 64
# (63.5, rounded), −127, 32, 0. The message has 4 + 4 bytes. Decoded: 64/127 = 0.504, −1, 0.252, 0. The error is at
# most half a scale, 0.004.
#
# **`quantized_all_gather(shard, block, *, group)`**: `shard` is flat float32 and has the same length on all ranks.
# For each block of `block` numbers (the last may be shorter) the scale is the largest absolute value divided by 127,
# and a code is the number divided by the scale, rounded. Return all ranks' decoded shards in rank order as one
# float32 vector. Send **one byte per number and four per block to each other rank**, and nothing else. No number may
# be off by more than half a scale, every rank must end up with the *same* numbers, and `shard` must not change.
# *About 12 lines.*
#
# <details><summary>Hint</summary>
#
# Decode your own message as well, so that all ranks agree. `codes.view(torch.uint8)` and `scales.view(torch.uint8)` are
# bytes, and `torch.cat` can join them. Clone the scales' bytes before `.view(torch.float32)`, so that they are aligned.
# </details>


# %% exercise="week04.quantized-gather"
def quantized_all_gather(shard, block, *, group):
    """Gather all ranks' flat float32 shards, sent as int8 codes and one float32 scale per block."""
    ### BEGIN SOLUTION
    size, num = dist.get_world_size(group), len(shard)
    blocks = pad(shard, (0, -num % block)).view(-1, block)
    scales = blocks.abs().amax(dim=1) / 127
    codes = (blocks / scales.clamp(min=1e-38)[:, None]).round().to(torch.int8).view(-1)[:num]
    message = torch.cat([codes.view(torch.uint8), scales.view(torch.uint8)])
    messages = message.new_empty(size * len(message))
    dist.all_gather_single(messages, message, group=group)
    shards = []
    for one in messages.view(size, -1):
        scales = one[num:].clone().view(torch.float32).repeat_interleave(block)[:num]
        shards.append(one[:num].view(torch.int8) * scales)
    return torch.cat(shards)
    ### END SOLUTION


# %% check="week04.quantized-gather" points=3
cases = [
    {"ranks": 2, "numbers": 8, "block": 4},
    {"ranks": 4, "numbers": 600, "block": 256, "zeros": True, "subgroup": [0, 1, 3]},
    {"ranks": 1, "numbers": 6, "block": 4},
]
check("week04.quantized-gather", quantized_all_gather, cases=cases)

# %% [markdown]
# ZeRO++ has two more ideas. **hpZ**: after the forward, each *node* keeps a copy of the weights, split over its own
# ranks (a secondary shard). The backward then gathers only within the node, over the fast link, for S/(ranks per
# node) bytes of memory. **qgZ**: gradients are sent as **INT4** codes in all-to-alls, in **two hops**: first inside
# the node, where each rank sums in full precision and rounds again; then between nodes. The package's qgZ is simpler:
# 8 bits, one hop.
#
# For a bf16 model, the traffic between nodes is: forward S/2 (qwZ), backward 0 (hpZ), gradients S/4 (qgZ, 4 bits
# instead of 16). That is **0.75 S instead of 3 S.**
#
# **Predict, then measure**, on four ranks in two nodes, with float32 weights. Without hpZ both gathers use eight bits;
# with hpZ the backward's gather is exact and stays inside the node. Which bytes cross?


# %%
def plus_step(options, in_nodes):
    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    node = nodes[dist.get_rank() // 2] if in_nodes else None
    zero = data_parallel.ZeroPlusPlus(model, torch.optim.SGD, units=list(model), node=node, lr=0.1, **options)
    with meter.record() as bill:
        model(torch.ones(4, 64)).square().mean().backward()
        zero.step()
    return bill.sent_bytes


# %%
sent = {}
layers, ranks, numbers, bytes_each = 4, 4, 64 * 64 + 64, 4  # numbers of one layer
qwz, qgz = {"quantized_weights": True}, {"quantized_gradients": True}
for name, options, per_node in [
    ("ZeRO-3", {}, None),
    ("qwZ", qwz, None),
    ("qwZ + hpZ", qwz, 2),
    ("qwZ + hpZ + qgZ", qwz | qgz, 2),
]:
    due = layers * costs.plus_bytes(ranks, numbers, bytes_each, ranks_per_node=per_node, **options)
    measured = shardlab.run(plus_step, options, per_node is not None, ranks=ranks)[0]
    # With one rank per node, the backward's gather sends nothing: what remains is what hpZ sends to all ranks.
    to_all = layers * costs.plus_bytes(ranks, numbers, bytes_each, ranks_per_node=per_node and 1, **options)
    crossing = 2 / 3 * to_all  # two of three peers are in the other node
    sent[name] = {"inside a node": measured - crossing, "between nodes": crossing}
    print(f"{name}: predicted {due:,.0f}, sent {measured:,.0f} bytes, {crossing:,.0f} of them to the other node")
figure, ax = figures.new_axes(7, 3.2)
figures.show(figure, figures.draw_paired_bars(ax, sent, title="hpZ: more bytes inside a node, fewer between nodes"))

# %% [markdown]
# With hpZ a rank sends *more* in total than with qwZ alone, because the backward's gather is exact again. But none of
# it leaves the node, so the traffic between nodes shrinks. (We count as if each rank sent its slice to each peer.)

# %% [markdown]
# ## 9 · Read real code
#
# Open `_fully_shard.py` and `_fsdp_param_group.py` in the folder that the next cell prints (PyTorch 2.13). Three
# questions:
#
# 1. `"ranks_of_the_backward"`: `fully_shard(block, mesh=mesh, reshard_after_forward=8)` on a mesh of 64 ranks. How many
#    ranks take part in a block's all-gather in the **backward**? A number.
# 2. `"records"`: the backward prefetches in the reverse order of the forward. Which method of `FSDPParamGroup`
#    records that order? Its name.
# 3. `"order"`: in `FSDPParamGroup.post_backward`, when gradients are reduced, in which order are `reshard`,
#    `foreach_reduce` and `accumulate_unsharded_grad_if_needed` called? A list of three names.

# %%
print(torch.__path__[0] + "/distributed/fsdp/_fully_shard")

# %% exercise="week04.reading"
reading_answers = {"ranks_of_the_backward": None, "records": None, "order": None}
### BEGIN SOLUTION
reading_answers["ranks_of_the_backward"] = 8  # hpZ: the secondary shard of ZeRO++
reading_answers["records"] = "_record_post_forward"
reading_answers["order"] = ["accumulate_unsharded_grad_if_needed", "reshard", "foreach_reduce"]
### END SOLUTION

# %% check="week04.reading" points=1
check("week04.reading", reading_answers)

# %% [markdown]
# ## 10 · Interview: 65B over 10 GbE, how many seconds per step?
#
# **`seconds_a_step(num_parameters, num_ranks, bits_per_second)`** returns how many seconds each rank's own link needs
# for the bytes of one step, with DDP and with ZeRO-3. Weights and gradients are bf16. By hand: 10⁹ parameters are 2
# GB; two ranks send 2 · 1/2 · 2 = 2 GB with DDP and 3 GB with ZeRO-3; 8 · 10⁹ bits per second are 1 GB per second, so
# it takes 2 and 3 s. *About 3 lines.*


# %% exercise="week04.ethernet"
def seconds_a_step(num_parameters, num_ranks, bits_per_second):
    """(DDP, ZeRO-3): seconds to send the bytes of a step, 2 per parameter, over a link of bits_per_second."""
    ### BEGIN SOLUTION
    num_bytes = 2 * num_parameters * (num_ranks - 1) / num_ranks
    bytes_per_second = bits_per_second / 8
    return 2 * num_bytes / bytes_per_second, 3 * num_bytes / bytes_per_second
    ### END SOLUTION


# %% check="week04.ethernet" points=1
cases = [
    {"num_parameters": 65 * 10**9, "num_ranks": 64, "bits_per_second": 10**10},
    {"num_parameters": 10**9, "num_ranks": 2, "bits_per_second": 4 * 10**11},
]
check("week04.ethernet", seconds_a_step, cases=cases)

# %% [markdown]
# Now answer in five to eight sentences: both numbers for 64 GPUs; what *you* measured in sections 6 and 8; whether a
# larger batch or more GPUs help, and why; which of this week's remedies you would use, and what each costs.

# %% [markdown] manual="week04.interview" points=2
# ### BEGIN SOLUTION
# 65B parameters in bf16 are 130 GB. A rank sends 2·63/64·130 GB = 256 GB with DDP and 384 GB with ZeRO-3; 10 GbE
# carries 1.25 GB/s, so sending the bytes of a step alone takes 205 s or 307 s. In section 6 my ranks sent exactly 1.5
# times what DDP sends; with all of ZeRO++ they sent 43% of ZeRO-3's bytes, starting from float32.
#
# DDP has the smaller number but is not an option: its states, 1040 GB, fit on no GPU. More GPUs do not help: (N−1)/N is
# nearly 1 already. A larger batch does, because the bytes of a step do not depend on it; but with gradient accumulation
# ZeRO-3 gathers the weights again in every microbatch, unless they are kept. Inside a node the link is hundreds of
# times as fast, so keep the slices within a node (hybrid sharding, or hpZ for the backward) and send only gradients
# over Ethernet, 1/8 of them from each GPU, in 8 bits. Both have a price: memory for the copies, precision for the bits.
#
# Full marks: both numbers with their reason, one measured number, larger batch compared with more GPUs, one remedy
# with its price.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>80 equal blocks, N = 64, prefetch 1. What share of the weights is on a rank at its peak?</summary>
#
# Its slice, 1/64, and two of 80 blocks: about 4%. In the backward a block's full gradient adds 1/80.
# </details>
#
# <details><summary>You accumulate gradients over 8 microbatches. What does ZeRO-3 send, and DDP?</summary>
#
# ZeRO-3 gathers twice in every microbatch: 16 gathers, and 8 reductions. DDP all-reduces once, at the end.
# </details>
#
# <details><summary>FSDP runs out of memory at the first forward, though 16P/N fits easily. Where do you look?</summary>
#
# At the units: is the whole model one? Then at the activations.
# </details>
#
# ## 12 · Take away
#
# > **One.** States take 16P/N bytes. At the peak, in the backward, the full weights of prefetch + 1 passes and one
# > unit's full gradient come on top. Only the states shrink by N×.
#
# > **Two.** A step sends three times the model: gather, gather, reduce. That is 1.5 times DDP's bytes.
#
# > **Three.** A unit that is too large frees nothing; one that is too small pays latency.
#
# ## 13 · Going further
#
# - Rajbhandari et al., *ZeRO*, arXiv 1910.02054. Look for: section 7, where the 1.5 is derived.
# - Zhao et al., *PyTorch FSDP*, arXiv 2304.11277. Look for: section 3.2.1, and the rate limiter that keeps prefetch
#   from filling the memory.
# - Wang et al., *ZeRO++*, arXiv 2306.10209. Look for: the error with one scale per tensor or per block.
# - Ren et al., *ZeRO-Offload*, arXiv 2101.06840. Look for: why the optimizer runs on the host, and not the backward.
# - **Lab 3**: `labs/README.md` says how to run ZeRO-3 on a small GPT, and how to compare all stages with PyTorch's
#   DDP and FSDP. `docs/one-screen/zero3.md` shows the whole step on one screen.

# %% [markdown]
# ## Optional · Units, offload, and fewer ranks
#
# Everything from here on is extra credit.
#
# ### Units: the claim of a tutorial
#
# PyTorch's first FSDP tutorial has 100 linear layers. As one unit, all 100 are gathered at once. As five units of 20,
# it says, a rank has no more than 20 whole layers at any time. Is that so?
#
# **`most_gathered(unit_sizes, prefetch)`** returns the most numbers that are gathered at once by section 4's plan.
# *About 3 lines.*
#
# **By hand**, units of 3, 1 and 4, prefetch 1. The passes are 3 1 4 4 1 3. The window of the second holds 1 + 4 = 5,
# that of the third only 4: both its passes are of one unit. The answer is 5.


# %% exercise="week04.most-gathered"
def most_gathered(unit_sizes, prefetch):
    """The most numbers that a rank has gathered at any time of a step."""
    ### BEGIN SOLUTION
    passes = [*range(len(unit_sizes)), *reversed(range(len(unit_sizes)))]
    windows = [set(passes[place : place + prefetch + 1]) for place in range(len(passes))]
    return max(sum(unit_sizes[unit] for unit in window) for window in windows)
    ### END SOLUTION


# %% check="week04.most-gathered" points=1 optional=true
cases = [{"unit_sizes": [100], "prefetch": 0}, {"unit_sizes": [3, 1, 4], "prefetch": 1}]
cases += [{"unit_sizes": [20] * 5, "prefetch": prefetch} for prefetch in (0, 1)]
check("week04.most-gathered", most_gathered, cases=cases)

# %% [markdown]
# The claim holds without prefetch. But FSDP's default, `BACKWARD_PRE`, gathers the next unit before it computes
# the gradients of the current one: 40 layers in the backward.
#
# ### Pay with seconds: offload
#
# The optimizer needs 12 of the 16 bytes only once per step. ZeRO-Offload (卸载) keeps the weights on the GPU, and
# gradients and optimizer in host memory. Each layer's bf16 gradient goes down the host link as soon as it is ready,
# Adam runs on the CPU, and the new bf16 weights come back.
#
# **`offload_step(num_parameters, backward_seconds, link, adam)`** returns four numbers for one GPU: the bytes of model
# states on the GPU and on the host, the bytes that cross the link, and the seconds from the start of the backward until
# all new weights are back. The lists have one entry per layer, in the order of the backward. Each direction of the link
# carries `link` bytes per second; `adam` is parameters per second. The backward, each direction and Adam all handle one
# layer at a time. *About 8 lines.*
#
# **By hand**, two layers of 4 parameters, 1 s of backward each, link 8, adam 4: each copy takes 1 s, each update 1 s.
# The first gradient is ready at 1, arrived at 2, updated at 3, back at 4. The second is ready at 2, when the link is
# free again, and back at 5. The GPU holds 16 bytes, the host 112, and 32 cross.


# %% exercise="week04.offload"
def offload_step(num_parameters, backward_seconds, link, adam):
    """[bytes on the GPU, bytes on the host, bytes over the link, seconds of the step]."""
    ### BEGIN SOLUTION
    total, ready, arrived, updated, back = sum(num_parameters), 0.0, 0.0, 0.0, 0.0
    for num, seconds in zip(num_parameters, backward_seconds, strict=True):
        ready += seconds
        arrived = max(arrived, ready) + 2 * num / link
        updated = max(updated, arrived) + num / adam
        back = max(back, updated) + 2 * num / link
    return [2 * total, 14 * total, 4 * total, back]
    ### END SOLUTION


# %% check="week04.offload" points=2 optional=true
cases = [{"num_parameters": [4, 4], "backward_seconds": [1.0, 1.0], "link": 8.0, "adam": 4.0}]
layers = {"num_parameters": [100, 400, 100], "backward_seconds": [1.0, 2.0, 0.5]}
check("week04.offload", offload_step, cases=[*cases, layers | {"link": 400.0, "adam": 100.0}])

# %% [markdown]
# **Predict, then measure** four layers over emulated links. Which part sets the time of each?

# %%
layers, seconds = [10**6] * 4, [0.05] * 4
for link, adam in [(2e9, 1e9), (2e7, 1e9), (2e9, 1e7)]:
    *_, due = offload_step(layers, seconds, link, adam)
    measured = data_parallel.offloaded_step(layers, seconds, link=link, adam=adam)
    print(
        f"link {link:.0e}, adam {adam:.0e}: backward {sum(seconds)} s, predicted {due:.3f} s, measured {measured:.3f} s"
    )

# %% [markdown]
# A larger batch makes only the backward longer, so offload is cheap if the GPU has enough work per step. DeepSpeed's
# tutorial trains 10 billion parameters this way on one GPU of 32 GB: 2 bytes each are 20 GB, where 16 would be 160.
#
# ### Challenge: save on 4 ranks, load on 2
#
# Each of F ranks saved one file: its slice of unit 0, then its slice of unit 1, and so on. Every unit is split into F
# equal slices of ⌈size/F⌉ numbers, with padding at the end. Training continues on fewer ranks with larger slices, and
# no rank can hold the whole model.
#
# **`reading_plan(unit_sizes, num_files, num_ranks, rank)`** returns what one of the new ranks reads: a list of
# `(file, begin, end)`, with offsets counted in numbers. Read in this order, they give the rank's new slices of all
# units, *without* padding. **Target: read no extra numbers, and at most one range per unit in each file.** *About 11
# lines.*
#
# Here are two units of 10 and 6 numbers in 4 files (`-` is padding), and what the new rank 0 of 2 reads:
#
# ```
# file 0: 0 1 2 | a b      unit 0: reads (0, 0, 3), (1, 0, 2): 0 1 2 3 4
# file 1: 3 4 5 | c d      unit 1: reads (0, 3, 5), (1, 3, 4): a b c
# file 2: 6 7 8 | e f
# file 3: 9 - - | - -
# ```


# %% exercise="week04.reshard"
def reading_plan(unit_sizes, num_files, num_ranks, rank):
    """Ranges (file, begin, end) that give, in this order, this rank's new slices of all units without padding."""
    ### BEGIN SOLUTION
    plan, offset = [], 0
    for size in unit_sizes:
        old, new = -(-size // num_files), -(-size // num_ranks)
        for file in range(num_files):
            begin = max(rank * new, file * old)
            end = min((rank + 1) * new, (file + 1) * old, size)
            if begin < end:
                plan.append((file, offset + begin - file * old, offset + end - file * old))
        offset += old  # each unit takes the same number of elements in every file
    return plan
    ### END SOLUTION


# %% check="week04.reshard" points=3 optional=true
files = {"num_files": 4, "num_ranks": 2}
cases = [files | {"unit_sizes": sizes, "rank": rank} for sizes in ([10, 6], [9]) for rank in (0, 1)]
check("week04.reshard", reading_plan, cases=cases)

# %% [markdown]
# The package does this with PyTorch's distributed checkpoint: train on four ranks, save, load on two, compare.


# %%
def new_zero():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(7, 7) for _ in range(3)))  # 56 numbers per unit
    return data_parallel.Zero3(model, torch.optim.Adam, units=list(model), lr=0.1)


def train_and_save(folder):
    zero = new_zero()
    for _ in range(3):
        zero.zero_grad()
        zero.module(torch.ones(2, 7) + dist.get_rank()).square().mean().backward()
        zero.step()
    data_parallel.checkpoint.save(zero, folder, step=3)
    return zero.full_parameters()


def load(folder):
    zero = new_zero()
    return data_parallel.checkpoint.load(zero, data_parallel.checkpoint.latest(folder)), zero.full_parameters()


with data_parallel.checkpoint.temporary() as folder:
    before = shardlab.run(train_and_save, folder, ranks=4, timeout=60)[0]
    step, after = shardlab.run(load, folder, ranks=2, timeout=60)[0]
print(f"loaded step {step}; all weights equal: {all(torch.equal(before[name], after[name]) for name in before)}")
