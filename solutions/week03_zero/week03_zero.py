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
# # Week 3 · ZeRO (零冗余优化): why should every rank store the same state?
#
# *Core: about 150 minutes; optional: about 70 · 2 to 4 ranks, once 8 · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a sharded Adam with float32 master weights, and gradients that are reduced inside the backward;
# - [ ] **predict** the bytes that a rank holds and sends in each stage, including padding, and confirm both;
# - [ ] **find** a step that is right on each rank alone but wrong for all of them together.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does every rank of data parallelism (数据并行) hold after a step?</summary>
#
# The same weights, the same mean gradient, and the same optimizer state. Only the batches differ.
# </details>
#
# <details><summary>Which two collectives make up an all-reduce?</summary>
#
# A reduce-scatter, then an all-gather (week 1). This week something happens between the two.
# </details>
#
# <details><summary>What does Adam keep from step to step?</summary>
#
# For each weight a running mean of its gradients, the momentum (动量), and of their squares, the variance (方差).
# </details>

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import costs, data_parallel, figures, meter

from autograder import check, traces

# %% [markdown]
# ## 1 · The problem in numbers
#
# The weights of a 7B model take 14 GB in bf16. A GPU has 80 GB. The model should fit five times, but it does not even
# fit once.
#
# In mixed precision (混合精度) a parameter takes 2 bytes for the weight and 2 for the gradient, both in bf16, and 12
# in the optimizer, in float32: a master copy (主权重) of the weight, momentum, and variance, 4 bytes each. These 16
# bytes are the **model states** (模型状态). Eight data-parallel ranks hold eight identical copies of them.
#
# > **16 or 18?** The ZeRO paper counts gradients in bf16, 2 bytes: 16 per parameter. A program that sums gradients over
# > microbatches in float32, as Megatron does, holds 4: 18 per parameter. Both are right, for different programs. **The
# > course counts 16**, except where a plan has to fit a real GPU and Megatron runs it: 18 in weeks 10, 15 and 16 and in
# > the planner.

# %%
stages = ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"]
rows = {name: vars(costs.zero_state_bytes(7e9, 8, stage)) for stage, name in enumerate(stages)}
figure, ax = figures.new_axes(7, 2.8)
title = "7 billion parameters on 8 ranks fit from stage 1 on"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# ### Warm-up: the table of bytes
#
# Each stage of ZeRO splits one more part into N slices, one per rank: stage 1 splits the optimizer state, stage 2
# also the gradients, and stage 3 also the weights (next week).
#
# **`state_bytes(num_parameters, num_ranks)`** returns four numbers: the bytes of model states on one rank with DDP
# and with stages 1, 2 and 3. By hand, 100 parameters on 4 ranks: DDP needs 200 + 200 + 1200 = 1600; stage 1 reduces
# the 1200 to 300, which leaves 700. Ignore padding for now: a slice has P/N parameters, even if that is a fraction.
# *About 2 lines.*
#
# > **Fresh cases.** Grading adds cases: other shapes and sizes (not always divisible by N, sometimes below N), dtypes
# > (float32, float64 and bfloat16), 1 to 8 ranks, and groups that are only a part of the world.


# %% exercise="week03.state-bytes"
def state_bytes(num_parameters, num_ranks):
    """Bytes of model states on one rank, mixed precision with Adam: [DDP, ZeRO-1, ZeRO-2, ZeRO-3]."""
    ### BEGIN SOLUTION
    cut = num_parameters / num_ranks
    return [16 * num_parameters, 4 * num_parameters + 12 * cut, 2 * num_parameters + 14 * cut, 16 * cut]
    ### END SOLUTION


# %% check="week03.state-bytes" points=1
cases = [{"num_parameters": 7e9, "num_ranks": 8}, {"num_parameters": 1e9, "num_ranks": 64}]
check("week03.state-bytes", state_bytes, cases=cases)

# %% [markdown]
# > **Three corrections to lecture notes, ours included.** *"Model states = 4Φ"* counts numbers: weight, gradient,
# > momentum, variance. With everything in float32 that is 4 · 4 = 16 bytes per parameter. Mixed precision happens to
# > give 2 + 2 + 12 = 16 as well. *"The optimizer state is 12× the model"*: it is 12 **bytes per parameter**, six times
# > the bf16 weights. *"ZeRO-1 saves 4×, ZeRO-2 8×, ZeRO-3 3N×"*: run the next cell.

# %%
print("  N   ZeRO-1   ZeRO-2   ZeRO-3     times smaller than DDP")
for num_ranks in (2, 8, 64, 100_000):
    ddp, *cut = (costs.zero_state_bytes(1.0, num_ranks, stage).total for stage in range(4))
    print(f"{num_ranks:6}", *(f"{ddp / held:8.4g}" for held in cut))

# %% [markdown]
# 4× and 8× are the limits for many ranks, where 4 or 2 full bytes remain. With N = 8 the factors are smaller. ZeRO-3
# divides by N, not by 3N: it splits three parts, each into N. Activations (week 6) come on top.


# %% tags=["interactive"]
@figures.interact(billions=[1, 7, 13, 70, 175], num_ranks=[2, 4, 8, 16, 64, 256])
def memory(billions=7, num_ranks=8):
    for stage, name in enumerate(stages):
        held = costs.zero_state_bytes(1e9 * billions, num_ranks, stage).total
        print(f"{name}: {held / 1e9:8.1f} GB on each rank" + (", does not fit in 80 GB" if held > 80e9 else ""))


# %% [markdown]
# ## 2 · The picture first
#
# Two ranks hold the same four weights, and each rank has the gradients from its part of the batch. Rank 0 owns the
# first half of the weights, rank 1 the second. Only the owner keeps Adam's state for a weight and updates it.
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | weights, the same | `[ 5 5 5 5 ]` | `[ 5 5 5 5 ]` |
# | own gradients | `[ 1 2 3 4 ]` | `[ 3 2 1 0 ]` |
# | 1: **reduce-scatter**, mean | `[ 2 2 · · ]` | `[ · · 2 2 ]` |
# | 2: **update** of its half | `[ 3 3 · · ]` | `[ · · 3 3 ]` |
# | 3: **all-gather** of weights | `[ 3 3 3 3 ]` | `[ 3 3 3 3 ]` |
#
# Step 2 comes between the two halves of an all-reduce. **Predict:** how many more bytes than DDP does this send?


# %%
def one_step(gradient):
    mine, weights = torch.empty(2), torch.full((4,), 5.0)
    dist.reduce_scatter_single(mine, gradient)
    own = weights.chunk(2)[dist.get_rank()] - mine / 2  # plain gradient descent with a learning rate of 1
    dist.all_gather_single(weights, own)
    return own.tolist(), weights.tolist()


gradients = shardlab.PerRank([torch.tensor([1.0, 2, 3, 4]), torch.tensor([3.0, 2, 1, 0])])
print(shardlab.run(one_step, gradients, ranks=2))
print(
    "bytes that a rank sends for 4 float32:",
    [costs.traffic.zero_bytes(2, 16, stage) for stage in (0, 1)],
    "DDP, ZeRO-1",
)

# %% [markdown]
# None. An all-reduce is a reduce-scatter of gradients and an all-gather of *gradients*; ZeRO-1 gathers *weights*
# instead, which have the same size.
#
# **Notation.** P parameters, N ranks along mesh axis D; weights `w[P]`, gradients `g[P]{U_D}`. A step is:
# reduce-scatter `g[P]{U_D}` → `g[P_D]`, update `m[P_D]`, all-gather `w[P_D]` → `w[P]`.
#
# ## 3 · A model that does not divide evenly
#
# A model is a list of matrices and vectors, and 1857 parameters are not divisible by 4. So all tensors are
# concatenated into one flat vector (展平), and padding (填充), zeros at the end, makes N equal slices: 4 · 465 =
# 1857 + 3. A slice may end in the middle of a matrix. That does not matter, because Adam treats every number
# separately.
#
# **`flatten_and_pad(tensors, num_ranks)`** returns the vector, as short as possible, in the dtype of the tensors.
# **`unflatten(flat, tensors)`** reverses this: it returns a list of parts of `flat`, shaped like the `tensors`,
# without the padding. *About 2 and 5 lines.*
#
# **By hand**, 2 ranks: the matrix `[[1, 2], [3, 4]]` and the vector `[5]` become `[1, 2, 3, 4, 5, 0]`, a slice of
# three for each rank. On the way back, the first four numbers are the matrix and the fifth is the vector; the zero is
# left over.
#
# <details><summary>Hint: how much padding?</summary>
#
# The distance to the next multiple, or zero if the length already is one. In Python `-7 % 4` is 1.
# </details>


# %% exercise="week03.flatten"
def flatten_and_pad(tensors, num_ranks):
    """One vector of all numbers in order, padded with zeros to a multiple of num_ranks."""
    ### BEGIN SOLUTION
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
    ### END SOLUTION


def unflatten(flat, tensors):
    """Parts of the vector with the shapes of `tensors`, in order. The rest is padding."""
    ### BEGIN SOLUTION
    parts, begin = [], 0
    for tensor in tensors:
        parts.append(flat[begin : begin + tensor.numel()].view(tensor.shape))
        begin += tensor.numel()
    return parts
    ### END SOLUTION


# %% check="week03.flatten" points=2
layers = [[32, 56], [32], [1, 32], [1]]
cases = [{"shapes": layers, "num_ranks": n, "part": "flatten"} for n in (2, 4)]
cases += [{"shapes": [[2, 4], [8]], "num_ranks": 4, "part": "flatten"}]
cases += [{"shapes": [[1], [2]], "num_ranks": 7, "dtype": "bfloat16", "part": "flatten"}]
cases += [{"shapes": layers, "num_ranks": 4, "part": "unflatten"}]
check("week03.flatten", flatten_and_pad, unflatten, cases=cases)

# %% [markdown]
# ## 4 · Why a master copy?
#
# Add 0.001 to a bf16 weight of 1.0 a hundred times. **What is it then? Commit to an answer, then run the cell.**

# %%
weight, master = torch.ones(1, dtype=torch.bfloat16), torch.ones(1)
for _ in range(100):
    weight += 0.001
    master += 0.001
print(f"bf16 alone: {weight.item()}, a float32 master: {master.item():.4f}, rounded: {master.bfloat16().item()}")
print("the next number after 1 in bf16:", torch.tensor(1.0).bfloat16().nextafter(torch.tensor(2.0).bfloat16()).item())

# %% [markdown]
# All hundred updates are lost to rounding (舍入). In float32 they add up; the bf16 weight is copied from the master.
#
# **Why scale the loss?** bf16 has few digits but the *range* (指数范围) of float32. fp16 has more digits but a narrow
# range: the smallest number above 0 is 2⁻²⁴, the largest 65504. **Predict:** what happens to a gradient of 10⁻⁸?

# %%
gradient, scale = torch.tensor(1e-8), 2.0**16
for dtype in (torch.bfloat16, torch.float16):
    plain, scaled = gradient.to(dtype).item(), (scale * gradient).to(dtype).float().item() / scale
    print(f"{dtype}: {plain:.2g}; scaled by 2^16 and back: {scaled:.2g}; largest number {torch.finfo(dtype).max:.3g}")

# %% [markdown]
# fp16 rounds it to 0. **Loss scaling** (损失缩放) multiplies the *loss* by a number before the backward. By the chain
# rule all gradients grow by the same factor, and fewer fall below 2⁻²⁴. Before the update they are divided by it, in
# float32. If the scale is too large, gradients become infinite: the step is skipped and the scale is halved. You can
# build this in the optional part. bf16 usually needs no scaling. Its problem is precision, and the master copy solves
# that.
#
# **Adam as data.** `adam.new_state(weights)` returns a dictionary: the float32 vectors `master` (a copy), `momentum`
# and `variance`, and a count, `step`. `adam.update(state, gradient, lr=lr)` updates it in place.

# %%
from mine import adam

state = adam.new_state(torch.ones(1857, dtype=torch.bfloat16))
print({name: value if name == "step" else (value.dtype, value.nbytes) for name, value in state.items()})
shards = {n: costs.shard_elements(1857, n) for n in (2, 4)}
print({n: f"slices of {size}, padding {padding}, state {12 * size} bytes" for n, (size, padding) in shards.items()})

# %% [markdown]
# ## 5 · ZeRO-1: every rank updates a slice
#
# Write three functions in one cell. Ranks are ranks *in the group*, and rank r owns slice r.
#
# - **`mean_slice(tensors, *, group)`** returns this rank's slice of the mean of the tensors over the ranks,
#   flattened and padded. Sum in their dtype, then divide by N. It must send no more than a reduce-scatter, (N−1)/N of
#   the padded vector's bytes, and leave its inputs unchanged. *About 4 lines.*
# - **`zero1_state(parameters, *, group)`** returns Adam's state for this rank's slice only: 12 bytes for each of its
#   parameters. It sends nothing. One case measures peak memory. *2 lines.*
# - **`zero1_step(parameters, mean, state, lr, *, group)`** takes one step; `mean` is what your `mean_slice` returns.
#   It overwrites `state` and, on every rank, all `parameters`. It sends the new weights in the model's dtype, (N−1)/N
#   of the model. *About 6 lines.*
#
# `mean_and_step` is given: it calls your `mean_slice`, then your `zero1_step`, and sends 2(N−1)/N of the model.
#
# The library: `dist.reduce_scatter_single(mine, flat, group=group)` fills `mine`, `dist.all_gather_single(flat, mine,
# group=group)` fills `flat`.
#
# **By hand**, 2 ranks, the four weights of section 2. `mean_slice` gives rank 0 `[2, 2]`, the mean of `[1, 2]` and
# `[3, 2]`. Its `zero1_state` has master `[5, 5]`, momentum `[0, 0]`, variance `[0, 0]`: 24 bytes. `zero1_step` updates
# the master, gathers both ranks' halves and writes them into the parameters.
#
# **Predict first:** an optimizer that shards nothing ends up with the same weights. How can the check detect that?


# %% exercise="week03.zero1"
def mean_slice(tensors, *, group):
    """This rank's slice of the mean of `tensors` over the ranks, flattened and padded."""
    ### BEGIN SOLUTION
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / dist.get_world_size(group)
    ### END SOLUTION


def zero1_state(parameters, *, group):
    """Adam's state for this rank's slice of the parameters, as returned by adam.new_state."""
    ### BEGIN SOLUTION
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
    ### END SOLUTION


def zero1_step(parameters, mean, state, lr, *, group):
    """One step of Adam with this rank's slice of the mean. Overwrites `parameters`, a list of tensors, and `state`."""
    ### BEGIN SOLUTION
    adam.update(state, mean, lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.detach().copy_(new)
    ### END SOLUTION


def mean_and_step(parameters, gradients, state, lr, *, group):
    """Given: a whole step, the mean of all ranks' gradients and then Adam."""
    zero1_step(parameters, mean_slice(gradients, group=group), state, lr, group=group)


# %% check="week03.zero1" points=4
case = {"ranks": 4, "numbers": 1857, "dtype": "bfloat16"}
cases = [case | {"subgroup": [1, 3], "part": "slice"}, case | {"part": "state"}]
cases += [case | {"numbers": 6_000_001, "part": "memory"}, case | {"part": "step"}]
cases += [case | {"ranks": 1, "part": part} for part in ("slice", "step")]  # a group of one
check("week03.zero1", mean_slice, zero1_state, mean_and_step, cases=cases)

# %% [markdown]
# The check also counts the bytes of the state and measures peak memory.
#
# ## 6 · ZeRO-2: send each gradient when it is ready
#
# With ZeRO-1, every rank holds all gradients, 2P bytes, at the end of the backward, but needs only 1/N of them. The
# last layer's gradient is complete before the first layer's has even begun. What if it were sent at once?
#
# torch calls a hook (钩子) as soon as a parameter's gradient is complete. In a model of six layers, the next cell
# counts how many gradients exist at each of these moments. **Predict both lists.**


# %%
def gradients_alive(frees):
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(6)))
    alive = []

    def arrived(parameter):
        alive.append(sum(p.grad is not None for p in model.parameters()))
        if frees:
            parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(arrived)
    model(torch.ones(1, 8)).sum().backward()
    return alive


print("kept:", gradients_alive(False), " freed in the hook:", gradients_alive(True))

# %% [markdown]
# ### `zero2_backward`
#
# **`zero2_backward(parameters, loss, *, group)`** runs the backward of `loss` and returns a list: for each of the
# `parameters`, in their order, this rank's slice of its mean gradient. Pad each parameter separately, and
# reduce-scatter each byte once. Afterwards no parameter may have a `.grad`, and at no time may most of the gradients
# exist together: the check reads the peak memory (内存峰值) of eight ranks from the kernel. Remove your hooks,
# because the next step calls the function again with the same parameters. Use your `mean_slice`. *About 9 lines.*
#
# `mean_square_backward` is given: it computes a loss and calls your function.
#
# **By hand**, 2 ranks and a layer with the weight `[a b]` and the bias `[c]`. Suppose the bias is ready first. The
# ranks' gradients are 2 and 4, so they reduce-scatter `[2, 0]` and `[4, 0]`. Rank 0 keeps the mean `[3]`, rank 1 the
# padding `[0]`, and both free their 2 and 4. Then comes the weight: rank 0 keeps the mean for a, rank 1 the mean for
# b.
#
# <details><summary>Hint 1: which hook?</summary>
#
# `parameter.register_post_accumulate_grad_hook(f)` calls `f(parameter)` once `.grad` is set. Keep what it returns:
# its `.remove()` removes the hook.
# </details>
#
# <details><summary>Hint 2: the hook, one line missing</summary>
#
# ```python
# def arrived(parameter):
#     slices[parameter] = mean_slice([parameter.grad], group=group)
#     ...  # what still holds the full gradient?
# ```
# </details>


# %% exercise="week03.zero2"
def zero2_backward(parameters, loss, *, group):
    """Run the backward of the loss. Returns a list: this rank's slice of each parameter's mean gradient."""
    ### BEGIN SOLUTION
    size, slices, sent = dist.get_world_size(group), {}, []

    def arrived(parameter):
        if len(sent) == 2:  # the older one was sent two layers ago, so it has probably arrived
            sent.pop(0).wait()
        flat = flatten_and_pad([parameter.grad], size)
        slices[parameter] = flat.new_empty(len(flat) // size)
        sent.append(dist.reduce_scatter_single(slices[parameter], flat, group=group, async_op=True))
        parameter.grad = None

    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in parameters]
    loss.backward()
    for work in sent:
        work.wait()
    for hook in hooks:
        hook.remove()
    return [slices[parameter] / size for parameter in parameters]
    ### END SOLUTION


def mean_square_backward(model, inputs, *, group):
    """Given: the loss is the mean square of the outputs."""
    return zero2_backward(list(model.parameters()), model(inputs).square().mean(), group=group)


# %% check="week03.zero2" points=3
values = {"ranks": 4, "widths": [7, 5, 3], "subgroup": [1, 3], "calls": 2, "part": "slices"}
memory = {"ranks": 8, "widths": [512] * 33, "part": "memory"}
alone = {"ranks": 1, "widths": [3, 2], "part": "slices"}
check("week03.zero2", mean_square_backward, cases=[values, memory, alone])

# %% [markdown]
# (The solution sends with `async_op=True` and waits two hooks later, which makes week 15's trainer faster.)
#
# ## 7 · Predict, then measure
#
# The package's `Zero1` and `Zero2` train a small bf16 GPT for two steps on four ranks, and on one rank, which holds
# as much as a rank of DDP. Each `held` line has three numbers: weights, gradients, and optimizer state. Which of them
# change with the stage, and to what? `sent` counts the bytes of one step.


# %%
def two_steps(engine):
    torch.manual_seed(0)
    model = shardlab.model.GPT(shardlab.model.GPTConfig(layers=2)).bfloat16()
    zero = engine(model, torch.optim.Adam, master_dtype=torch.float32)
    tokens = torch.randint(256, (2, 65), generator=torch.Generator().manual_seed(dist.get_rank()))
    for _ in range(2):
        zero.zero_grad()
        with meter.record() as bill:
            shardlab.model.next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
            gradients = zero.held().gradients
            zero.step()
    held = zero.held()
    return sum(p.numel() for p in model.parameters()), held.parameters, gradients, held.optimizer_state, bill.sent_bytes


for name, stage, engine, ranks in [
    ("one rank", 0, data_parallel.Zero1, 1),
    ("ZeRO-1", 1, data_parallel.Zero1, 4),
    ("ZeRO-2", 2, data_parallel.Zero2, 4),
]:
    (num, *held, sent), *_ = shardlab.run(two_steps, engine, ranks=ranks, timeout=60)
    due = list(vars(costs.zero_state_bytes(num, ranks, stage)).values())
    print(f"{name}: P = {num}")
    print(f"  held {held} bytes, predicted {due}")
    print(f"  sent {sent:.0f} bytes, predicted {costs.traffic.zero_bytes(ranks, 2 * num, stage):.0f}")

# %% [markdown]
# The bytes held match the formula except for four: Adam stores its step count as one extra number per vector. The
# bytes sent do not change with the stage. Week 2's DDP sends just as many:


# %%
def one_backward():
    model = data_parallel.DataParallel(shardlab.model.GPT(shardlab.model.GPTConfig(layers=2)).bfloat16())
    with meter.record() as bill:
        model(torch.zeros(1, 64, dtype=torch.long)).float().sum().backward()
    return bill.sent_bytes


sent = shardlab.run(one_backward, ranks=4, timeout=60)
num = sum(p.numel() for p in shardlab.model.GPT(shardlab.model.GPTConfig(layers=2)).parameters())
print("DDP measured:", sent)
due = [costs.traffic.zero_bytes(4, 2 * num, stage) for stage in range(4)]
bars = {f"{name}, {2 + (name == 'ZeRO-3')}(N-1)/N": one for name, one in zip(stages, due, strict=True)}
figure, ax = figures.new_axes(7, 2.4)
title = "Bytes that one of four ranks sends per step: only stage 3 sends more"
figures.show(figure, figures.draw_bars(ax, bars, title=title))

# %% [markdown]
# > **What the meter counts.** A reduce-scatter is booked with the bytes of a ring, which is how it runs between GPUs.
# > The CPU backend gloo runs an all-reduce and discards the rest.
#
# ## 8 · Bug hunt: three, four, and not five
#
# Gradients are clipped (梯度裁剪) so that their norm (范数) is at most 1. With ZeRO each rank holds a slice, so
# somebody wrote the code below. Rank 0 holds `[3, 0]`, rank 1 `[4, 0]`. **Which norm does each rank report, and what
# happens to the direction of the gradient?**


# %%
def clip_as_found(gradients, max_norm):
    norm = torch.cat(gradients).norm()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / norm, max=1))
    return norm.item(), gradients[0].tolist()


slices = shardlab.PerRank([[torch.tensor([3.0, 0])], [torch.tensor([4.0, 0])]])
print(shardlab.run(clip_as_found, slices, 1.0, ranks=2))

# %% [markdown]
# There is no exception, and the loss still falls. The whole gradient was `[3, 0, 4, 0]`, with norm √(9 + 16) = 5, and
# should have become `[0.6, 0, 0.8, 0]`. It became `[1, 0, 1, 0]`: another direction, and still too long.
#
# **`clip_slices(gradients, max_norm, *, group)`** returns the norm of all ranks' slices together and scales this
# rank's `gradients`, a list of tensors, in place. The norm is a float or a tensor of one number. Compute squares in
# float32. A rank may hold no slice: an empty list. If the norm is below `max_norm`, or zero, nothing changes. Slices
# keep their dtype and are not sent: each rank may send at most 128 bytes. *About 6 lines.*


# %% exercise="week03.clip"
def clip_slices(gradients, max_norm, *, group):
    """Scale slices so that those of all ranks together have a norm of at most max_norm. Returns the norm before."""
    ### BEGIN SOLUTION
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
    return norm
    ### END SOLUTION


# %% check="week03.clip" points=2
cases = [  # "share": max_norm as a share of the norm
    {"ranks": 2, "numbers": 2, "share": 0.5, "by_hand": True},
    {"ranks": 3, "numbers": 300, "share": 0.5, "empty": True},
    {"ranks": 4, "numbers": 4000, "share": 2.0, "subgroup": [1, 3], "dtype": "bfloat16"},
    {"ranks": 2, "numbers": 4, "share": 0.5, "zero": True},
    {"ranks": 1, "numbers": 3, "share": 0.5},
]
check("week03.clip", clip_slices, cases=cases)

# %% [markdown]
# ## 9 · Read real code
#
# `record` runs two steps of the installed Megatron-Core, whose `DistributedOptimizer` is ZeRO-1 with flat buffers. The
# first cell prints the path of the file that pads them: search it for `_pad`. The second cell prints a run's calls.

# %%
print("Read", traces.places.NEXT_STEP.path.with_name("param_and_grad_buffer.py"), "\n")
print("The trace says `reached` here, once for each weight with numbers in the rank's slice, and when a step begins:")
for place in traces.places.OPTIMIZER:
    print(place.path, place.source(before=1), sep="\n")

# %%
layout = traces.DistributedOptimizer(world=4, widths=(8, 24, 10, 8), bucket=10_000, overlap=False)
print(traces.record(layout, rank=2, places=traces.places.OPTIMIZER))  # shapes: what it gets, then what it gives
# Now set overlap=True and compare.

# %% [markdown]
# **`predict_trace(rank, world, widths, overlap)`** returns a dict, which is compared with a run. `widths`: linear
# layers without biases, in one bucket.
#
# 1. `"message"`: how many numbers each rank gives to the reduce-scatter, then how many it gets;
# 2. `"parts"`: how many numbers of each weight are in the rank's slice, in the buffer's order, without padding; a
#    weight with none is left out;
# 3. `"calls"`: the names of all calls after the **second** `reached: for buffer` line, in order. With `overlap` the
#    next forward gathers the weights, not the end of a step. `all_gather` is enough for `all_gather_into_tensor`.
#
# **By hand**, `[8, 24, 10]`, two ranks: the last weight comes first, 0 to 240; the other begins at the next multiple of
# 64, 256, and ends at 448. The end is padded to a multiple of 128 and of the number of ranks, 512. The message is
# `[512, 256]`; the parts are `[240]` and `[192]`. *About 13 lines.*


# %% exercise="week03.reading"
def predict_trace(rank, world, widths, overlap):
    """What Megatron's run shows on this rank: {message, parts, calls}."""
    ### BEGIN SOLUTION
    sizes = [widths[n] * widths[n + 1] for n in range(len(widths) - 1)]
    start, places_of = 0, []
    for size in reversed(sizes):
        start = -(-start // 64) * 64
        places_of.append((start, start + size))
        start += size
    unit = next(n for n in range(128, 128 * world + 1, 128) if n % world == 0)
    total = -(-start // unit) * unit
    first, last = rank * total // world, (rank + 1) * total // world
    parts = [min(end, last) - max(begin, first) for begin, end in places_of]
    gather, sums = ["all_gather"], ["reduce_scatter", "all_reduce"]
    calls = gather + sums if overlap else sums + gather
    return {"message": [total, total // world], "parts": [n for n in parts if n > 0], "calls": calls}
    ### END SOLUTION


# %% check="week03.reading" points=2
check("week03.reading", predict_trace)

# %% [markdown]
# ## 10 · Interview: 100 million parameters on two GPUs
#
# **`hundred_million_on_two()`** returns the GB (10⁹ bytes) of model states on each GPU: DDP and stages 1, 2 and 3. *One
# line, with your own function.*


# %% exercise="week03.two-gpus"
def hundred_million_on_two():
    """GB of model states on each of two GPUs: [DDP, ZeRO-1, ZeRO-2, ZeRO-3]."""
    ### BEGIN SOLUTION
    return [num_bytes / 1e9 for num_bytes in state_bytes(100e6, 2)]
    ### END SOLUTION


# %% check="week03.two-gpus" points=1
check("week03.two-gpus", hundred_million_on_two)

# %% [markdown]
# Now answer in five to eight sentences: the four numbers and where each comes from; which
# stage you would choose on two GPUs, and on 64; what each stage costs in bytes sent (section 7); what else a GPU's
# memory holds.

# %% [markdown] manual="week03.interview" points=2
# ### BEGIN SOLUTION
# 16 bytes per parameter are 1.6 GB with DDP. Stage 1 halves the optimizer's 12: 4 + 6 = 10 bytes, 1.0 GB. Stage 2
# halves the gradients as well: 9 bytes, 0.9 GB. Stage 3 halves everything: 8 bytes, 0.8 GB.
#
# On two GPUs stage 1 gives most of the gain and sends no more bytes than DDP, 2(N-1)/N of the model; stage 2 sends the
# same bytes and saves another tenth. Stage 3 sends half as many bytes again, 3(N-1)/N, for the last tenth: not worth it
# here. On 64 GPUs stages 1 and 2 end near 4 and 2 bytes per parameter and stage 3 at a quarter byte: the parts that are
# not split dominate.
#
# Besides the states, memory holds activations, which grow with batch and sequence, buckets being sent, temporary
# buffers of the update, and what the allocator wastes.
#
# Full marks: four numbers with their terms, a choice with its bytes sent, one other use of memory.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>1857 parameters on 4 ranks: what does rank 3 hold of the optimizer's state?</summary>
#
# A slice of 465 parameters, 3 of them padding: 3 · 4 · 465 = 5580 bytes.
# </details>
#
# <details><summary>Stage 2 leaves 2P + 14P/N bytes. Why is the 2P still there?</summary>
#
# Every rank runs the whole forward and backward and needs all weights for that. Stage 3 gathers them layer by layer.
# </details>
#
# <details><summary>Every rank reports a different gradient norm. What do you suspect?</summary>
#
# Each rank uses the norm of its slice instead of the whole. After a correct all-reduce all ranks have the same number.
# </details>
#
# ## 12 · Take away
#
# > **One.** 16 bytes per parameter: 16P → 4P + 12P/N → 2P + 14P/N → 16P/N. The largest part is split first.
#
# > **Two.** Stages 1 and 2 send what DDP sends, 2(N−1)/N of the model: the update comes between the two halves of an
# > all-reduce.
#
# > **Three.** A value that is right for a slice may be wrong for the whole. Norms, means, and counts need the group.
# > A float32 master keeps the updates that bf16 loses.
#
# ## 13 · Going further
#
# - Rajbhandari and others, *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*, arXiv 1910.02054.
#   Look for: figure 1, with a 7.5B model on 64 GPUs. Which of its factors are limits?
# - Micikevicius and others, *Mixed Precision Training*, arXiv 1710.03740. Look for: the share of updates that fp16
#   would lose, and the histogram of gradients that shows why the loss is scaled.
# - **Labs 1 and 3**: `labs/README.md` says how to run `memory_calculator.py`, and ZeRO's stages 1 and 2 on a small GPT,
#   with predicted and measured bytes side by side.

# %% [markdown]
# ## Optional · Loss scaling, what fits, and tied weights
#
# Everything from here on is extra credit.
#
# ### Loss scaling: all ranks skip, or none
#
# A step with fp16 weights begins with a scaled loss (section 4). **Dynamic** scaling (动态损失缩放) follows a rule.
# This one is that of Apex's `LossScaler`; torch's `GradScaler` has no `most`:
#
# - an infinity or NaN in the mean gradient: **skip** the step, halve `scale`, set `good` to 0;
# - otherwise **step** and add 1 to `good`; when it reaches `interval` (2000 in Apex and torch), double `scale`, but
#   not above `most` (2²⁴ in Apex), and set `good` to 0.
#
# With ZeRO the infinity is in *one* rank's slice. If each rank decided alone, that rank would skip and the others
# would step: a model with a slice that is a step behind, and scales that differ. So the ranks all-reduce one number
# before they decide: did any of us see one?
#
# **By hand**, 2 ranks, scale 2¹⁶, `good` 2, `interval` 3. The scaled gradients of two weights are `[1, 40000]` on
# rank 0 and `[3, 40000]` on rank 1. All four are finite, but the sum 80000 is above 65504. So rank 0's slice of the
# mean is `[2]` and rank 1's is `[inf]`. Both skip, with scale 2¹⁵ and `good` 0. Had the second weight had 400 and 600,
# both would have stepped, with means 2/2¹⁶ and 500/2¹⁶, and ended with scale 2¹⁷ and `good` 0.
#
# **`scaled_step(parameters, loss, state, scaler, lr, *, group)`** runs the backward of the scaled `loss`, takes a step
# of ZeRO-1 on all ranks or on none, updates the dict `scaler` (keys `scale`, `good`, `interval`, `most`), and leaves no
# `.grad`. It returns True for a step, False if it is skipped. Use your `mean_slice` and `zero1_step`. A skipped step
# gathers no weights and changes neither weights nor `state`. *About 13 lines.* `train` is given: its loss is a dot
# product, so a weight's gradient is its input.
#
# **Predict first:** Adam with gradients that nobody divided by the scale takes almost the right step. Why, and what
# would still be wrong?


# %% exercise="week03.loss-scale"
def scaled_step(parameters, loss, state, scaler, lr, *, group):
    """One step of ZeRO-1 with a scaled loss, on all ranks or on none. Returns whether it was taken."""
    ### BEGIN SOLUTION
    (loss * scaler["scale"]).backward()
    mean = mean_slice([parameter.grad for parameter in parameters], group=group).float()
    for parameter in parameters:
        parameter.grad = None
    overflow = (~mean.isfinite()).any().float()
    dist.all_reduce(overflow, dist.ReduceOp.MAX, group=group)
    if overflow:
        scaler["scale"], scaler["good"] = scaler["scale"] / 2, 0
        return False
    zero1_step(parameters, mean / scaler["scale"], state, lr, group=group)
    scaler["good"] += 1
    if scaler["good"] == scaler["interval"]:
        scaler["scale"], scaler["good"] = min(2 * scaler["scale"], scaler["most"]), 0
    return True
    ### END SOLUTION


def train(weights, batches, state, scaler, lr, *, group):
    """Given: one step per batch, with a dot product in float32 as loss. Returns a list of (stepped, scale after it)."""
    leaves, history = [weight.detach().requires_grad_() for weight in weights], []
    for batch in batches:
        loss = sum((leaf.float() * x).sum() for leaf, x in zip(leaves, batch, strict=True))
        stepped = scaled_step(leaves, loss, state, scaler, lr, group=group)
        history.append((stepped, scaler["scale"]))
    return history


# %% check="week03.loss-scale" points=3 optional=true
case = {"ranks": 2, "numbers": 9, "power": 16, "good": 1, "interval": 2}  # the scale is 2 to this power
cases = [{"ranks": 2, "numbers": 5, "power": 16, "good": 0, "interval": 3, "steps": ["good", "one"]}]
cases += [{"ranks": 4, "numbers": 41, "power": 16, "good": 2, "interval": 3, "steps": ["good", "good", "sum"]}]
cases += [case | {"power": 24, "steps": ["good"]}, case | {"ranks": 1, "steps": ["good", "one", "good"]}]
check("week03.loss-scale", train, cases=cases)

# %% [markdown]
# > Adam divides a mean of gradients by their root mean square, so a constant factor nearly cancels. But when the scale
# > changes, old and new gradients in the state no longer match, and a clip to norm 1 (section 8) is wrong at once.
#
# ### What fits: the choices of a tutorial
#
# DeepSpeed's ZeRO tutorial trains a GPT-2 of 1.5 billion parameters on 8 GPUs of 32 GB, and one of 10 billion on 32.
# Without ZeRO the small one runs out of memory, so it uses stage 1: Adam's 18 GB become 2.25 GB per GPU. The large one
# uses stage 2. Which stage would you have chosen?
#
# **`smallest_stage(num_parameters, num_ranks, memory_bytes, other_bytes)`** returns the smallest stage, 0 (DDP) to 3,
# with which a rank's model states and `other_bytes` (activations, buffers) fit in `memory_bytes`, or None if none
# does. A sum equal to `memory_bytes` fits. Ignore padding. *About 4 lines.*
#
# **By hand**, 100 parameters on 4 ranks, 100 other bytes: the sums are 1700, 800, 650 and 500. With 700 bytes of memory
# the answer is 2, with 499 it is None.


# %% exercise="week03.smallest-stage"
def smallest_stage(num_parameters, num_ranks, memory_bytes, other_bytes):
    """The smallest stage of ZeRO, 0 to 3, that fits in a rank's memory; None if none does."""
    ### BEGIN SOLUTION
    for stage, states in enumerate(state_bytes(num_parameters, num_ranks)):
        if states + other_bytes <= memory_bytes:
            return stage
    return None
    ### END SOLUTION


# %% check="week03.smallest-stage" points=1 optional=true
small = {"num_parameters": 1_500_000_000, "num_ranks": 8, "memory_bytes": 32_000_000_000}
cases = [small | {"other_bytes": other} for other in (0, 10_000_000_000)]
cases += [{"num_parameters": 10**10, "num_ranks": 32, "memory_bytes": 32 * 10**9, "other_bytes": 0}]
check("week03.smallest-stage", smallest_stage, cases=cases)

# %% [markdown]
# The states of the small model, 24 GB, would fit without ZeRO, so the rest must have taken more than 8 GB. The large
# one needs 43.75 GB in stage 1 and 24.375 GB in stage 2: the tutorial chose the smallest stage that fits.
#
# ### Challenge: tied weights, one message per layer
#
# One message per parameter pays α for every bias. So send each **layer** in one message, as soon as its gradients are
# complete. The model consists of `model.embedding`, the list `model.blocks`, and `model.head`, whose weight **is**
# the embedding's (权重共享). That weight's gradient has two parts, one from each end of the model.
#
# **`zero2_by_layer(model, tokens, *, group)`** runs the backward of `model(tokens).square().mean()` and returns this
# rank's slice of each layer that has weights, from the embedding to the last block; a shared weight belongs to the
# first layer that has it. Join a layer's weights in the order of `layer.parameters()`. Make at most **one call per
# layer** and send each byte once. Leave no `.grad` and no hook behind, and keep peak memory to a few layers. *About 15
# lines.*
#
# **By hand**, an embedding E, one block B, and a head that shares E. The backward runs head, B, embedding. After the
# head, E's gradient has only one of its two parts, so it is too early to send it. Then B is complete, is sent, and is
# freed. After the embedding, E is complete; torch calls the hook of a shared weight once, when both parts have been
# added. Two layers own weights, so there are two calls, and E's slice is first in the list.


# %% exercise="week03.tied"
def zero2_by_layer(model, tokens, *, group):
    """This rank's slices of the mean gradients, one per layer that owns weights, reduced inside the backward."""
    ### BEGIN SOLUTION
    owner, layers = {}, []
    for layer in [model.embedding, *model.blocks, model.head]:
        own = [parameter for parameter in layer.parameters() if parameter not in owner]
        owner |= dict.fromkeys(own, len(layers))
        layers += [own] if own else []
    slices = [None] * len(layers)

    def arrived(parameter):
        number = owner[parameter]
        if all(p.grad is not None for p in layers[number]):
            slices[number] = mean_slice([p.grad for p in layers[number]], group=group)
            for p in layers[number]:
                p.grad = None

    hooks = [parameter.register_post_accumulate_grad_hook(arrived) for parameter in owner]
    model(tokens).square().mean().backward()
    for hook in hooks:
        hook.remove()
    return slices
    ### END SOLUTION


# %% check="week03.tied" points=3 optional=true
values = {"ranks": 4, "model": [11, 3, 2], "subgroup": [0, 2, 3], "calls": 2, "part": "slices"}
memory = {"ranks": 8, "model": [1000, 192, 28], "part": "memory"}  # vocabulary, width, number of blocks
check("week03.tied", zero2_by_layer, cases=[values, memory])
