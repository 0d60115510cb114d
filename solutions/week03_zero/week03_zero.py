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
# # Week 3 · ZeRO (零冗余优化): why should every rank remember the same?
#
# *2.5 hours · 2 to 4 ranks, once 8 · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a sharded Adam with float32 master weights, and gradients that are reduced inside the backward;
# - [ ] **predict** the bytes that a rank holds and sends in each stage, padding included, and see both hold;
# - [ ] **find** the step that is right on every rank alone and wrong for all of them together.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does every rank of data parallelism (数据并行) hold after a step?</summary>
#
# The same: the same weights, the same mean gradient, the same optimizer state. Only the batches differ.
# </details>
#
# <details><summary>Which two collectives make an all-reduce?</summary>
#
# A reduce-scatter, then an all-gather (week 1). This week something happens between the two.
# </details>
#
# <details><summary>What does Adam remember from step to step?</summary>
#
# For each weight a running mean of its gradients, the momentum (动量), and one of their squares, the variance (方差).
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
# The weights of a 7B model are 14 GB in bf16. A GPU has 80 GB. It should fit five times, and it does not fit once.
#
# In mixed precision (混合精度) a parameter costs 2 bytes as a weight and 2 as a gradient, in bf16; then 12 in the
# optimizer, in float32: a master copy (主权重) of the weight, momentum and variance, 4 bytes each. These 16 bytes are
# the **model states** (模型状态). Eight data-parallel ranks hold eight equal copies of them.
#
# > **One convention.** Weeks 3 to 9 and 11 count as ZeRO's paper does: gradients are kept and sent in bf16, 2 bytes,
# > 16 in all. Megatron sums and sends the gradients of a bf16 model in float32: 4 bytes, 18 in all. So do the course's
# > planner and weeks 10, 15 and 16, where a plan has to fit a real GPU.

# %%
stages = ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"]
rows = {name: vars(costs.zero_state_bytes(7e9, 8, stage)) for stage, name in enumerate(stages)}
figure, ax = figures.new_axes(7, 2.8)
title = "7 billion parameters on 8 ranks: from stage 1 on they fit"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# ### Warm-up: the table of bytes
#
# ZeRO cuts one part after another into N slices, one per rank: stage 1 the optimizer state, stage 2 the gradients as
# well, stage 3 the weights as well (next week).
#
# **`state_bytes(num_parameters, num_ranks)`** returns four numbers, the bytes of model states on one rank with DDP and
# with stages 1, 2 and 3. By hand, 100 parameters on 4 ranks: DDP 200 + 200 + 1200 = 1600; stage 1 cuts the 1200 to
# 300, which leaves 700. No padding yet: a slice is P/N, even if that is a fraction. *About 2 lines.*
#
# > **Fresh cases.** The grade adds cases to those that you see. This week these vary: the numbers; shapes and sizes (N
# > divides some, and some have fewer numbers than ranks); dtypes (float32, float64 and bfloat16); 1 to 8 ranks; and the
# > group, often only a part of the world, such as ranks 1 and 3.


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
# > momentum, variance. All in float32 that is 4 · 4 = 16 bytes per parameter; in mixed precision 2 + 2 + 12 = 16 again,
# > by accident, and 18 if gradients are summed in float32. *"The optimizer state is 12× the model"*: it is 12 **bytes
# > per parameter**, six times the bf16 weights. *"ZeRO-1 saves 4×, ZeRO-2 8×, ZeRO-3 3N×"*: run the next cell.

# %%
print("  N   ZeRO-1   ZeRO-2   ZeRO-3     times less than DDP")
for num_ranks in (2, 8, 64, 100_000):
    ddp, *cut = (costs.zero_state_bytes(1.0, num_ranks, stage).total for stage in range(4))
    print(f"{num_ranks:6}", *(f"{ddp / held:8.4g}" for held in cut))

# %% [markdown]
# 4× and 8× are the limits for many ranks, where the slices vanish and 4 or 2 whole bytes stay. With N = 8 it is less.
# ZeRO-3 divides by N and not by 3N: three parts are cut, each by N. And all of this is about model states alone;
# activations are not among them (week 6).


# %% tags=["interactive"]
@figures.interact(billions=[1, 7, 13, 70, 175], num_ranks=[2, 4, 8, 16, 64, 256])
def memory(billions=7, num_ranks=8):
    for stage, name in enumerate(stages):
        held = costs.zero_state_bytes(1e9 * billions, num_ranks, stage).total
        print(f"{name}: {held / 1e9:8.1f} GB on each rank" + (", too much for 80 GB" if held > 80e9 else ""))


# %% [markdown]
# ## 2 · The picture first
#
# Two ranks, four weights, each rank with gradients of its own part of the batch. Rank 0 owns the first half of the
# weights, rank 1 the second; only the owner keeps Adam's memory of a weight, and only the owner updates it.
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | weights, the same | `[ 5 5 5 5 ]` | `[ 5 5 5 5 ]` |
# | own gradients | `[ 1 2 3 4 ]` | `[ 3 2 1 0 ]` |
# | 1: **reduce-scatter**, mean | `[ 2 2 · · ]` | `[ · · 2 2 ]` |
# | 2: **update** of the own half | `[ 3 3 · · ]` | `[ · · 3 3 ]` |
# | 3: **all-gather** of weights | `[ 3 3 3 3 ]` | `[ 3 3 3 3 ]` |
#
# Step 2 stands between the two halves of an all-reduce. **Predict:** how many bytes more than DDP does this send?


# %%
def one_step(gradient):
    mine, weights = torch.empty(2), torch.full((4,), 5.0)
    dist.reduce_scatter_single(mine, gradient)
    own = weights.chunk(2)[dist.get_rank()] - mine / 2  # plain gradient descent, the learning rate is 1
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
# **Notation.** P parameters, N ranks along mesh axis D; `w[P]`, `g[P]{U_D}`, and what stages cut: reduce-scatter
# `g[P]{U_D}` → `g[P_D]`, update `m[P_D]`, all-gather `w[P_D]` → `w[P]`.
#
# ## 3 · A model that does not divide
#
# A model is a list of matrices and vectors, and 1857 parameters do not divide by 4. So all tensors are laid end to
# end in one flat vector (展平), and zeros at the end, padding (填充), make N equal slices: 4 · 465 = 1857 + 3. Slices
# end in the middle of a matrix; Adam does not mind, for it treats every number by itself.
#
# **`flatten_and_pad(tensors, num_ranks)`** returns the vector, as short as it can be, in the dtype of the tensors.
# **`unflatten(flat, tensors)`** goes back: a list of parts of `flat`, shaped like the `tensors`; it leaves the padding
# out. *About 2 and 5 lines.*
#
# **By hand**, 2 ranks: the matrix `[[1, 2], [3, 4]]` and the vector `[5]` become `[1, 2, 3, 4, 5, 0]`, a slice of three
# for each rank. Back again, the first four numbers are the matrix, the fifth the vector; the zero is left over.
#
# <details><summary>Hint: how much padding?</summary>
#
# What is missing to the next multiple. None, if it is one already. In Python `-7 % 4` is 1.
# </details>


# %% exercise="week03.flatten"
def flatten_and_pad(tensors, num_ranks):
    """One vector of all numbers, in order, and zeros up to a multiple of num_ranks."""
    ### BEGIN SOLUTION
    padding = -sum(tensor.numel() for tensor in tensors) % num_ranks
    return torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_zeros(padding)])
    ### END SOLUTION


def unflatten(flat, tensors):
    """Parts of the vector with the shapes of `tensors`, in order; what is left over is padding."""
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
# A weight of 1.0 in bf16 grows by 0.001, a hundred times. **What is it then? Commit to an answer, then run.**

# %%
weight, master = torch.ones(1, dtype=torch.bfloat16), torch.ones(1)
for _ in range(100):
    weight += 0.001
    master += 0.001
print(f"bf16 alone: {weight.item()}, a float32 master: {master.item():.4f}, rounded: {master.bfloat16().item()}")
print("the next number after 1 in bf16:", torch.tensor(1.0).bfloat16().nextafter(torch.tensor(2.0).bfloat16()).item())

# %% [markdown]
# Each update is lost in rounding (舍入), all hundred of them. In float32 they add up, and the bf16 weight is made anew
# from the master after each step.
#
# **Why scale the loss?** bf16 has few digits and the *range* (指数范围) of float32. fp16 has more digits and a narrow
# range: the smallest number above 0 is 2⁻²⁴, the largest 65504. **Predict:** what becomes of a gradient of 10⁻⁸?

# %%
gradient, scale = torch.tensor(1e-8), 2.0**16
for dtype in (torch.bfloat16, torch.float16):
    plain, scaled = gradient.to(dtype).item(), (scale * gradient).to(dtype).float().item() / scale
    print(f"{dtype}: {plain:.2g}; scaled by 2^16 and back: {scaled:.2g}; largest number {torch.finfo(dtype).max:.3g}")

# %% [markdown]
# fp16 loses it. **Loss scaling** (损失缩放) multiplies the *loss* by a number before the backward: by the chain rule
# all gradients grow by the same factor, and fewer fall below 2⁻²⁴. Before the update they are divided by it, in
# float32. Too large a scale makes gradients infinite. So it is found on the way: after an infinity the step is skipped
# and the scale halved; after 2000 good steps in a row it is doubled (torch's `GradScaler`). Below, doubled after 3:

# %%
scale, good = 2.0**16, 0
for largest in (0.5, 2.0, 2.0, 0.5, 0.5, 0.25, 0.25):  # the largest gradient of each step
    is_finite = torch.tensor(largest * scale).half().isfinite().item()
    print(f"scale {scale:7.0f}, largest gradient {largest}: {'step' if is_finite else 'skip'}")
    good = good + 1 if is_finite else 0
    scale, good = (scale / 2, 0) if not is_finite else (2 * scale, 0) if good == 3 else (scale, good)

# %% [markdown]
# With ZeRO the infinity may be in *one* rank's slice. If each rank decided alone, that rank would skip and the others
# step: all would gather a model of which one slice lags a step behind, and their scales would differ. So before the
# step the ranks all-reduce one number, whether anybody saw an infinity. bf16 usually needs no scale: its problem is
# digits, and for that there is the master.
#
# **Adam as data.** `adam.new_state(weights)` makes the three float32 vectors of some weights, and
# `adam.update(state, gradient, lr=lr)` takes a step in them. The state is a dictionary:

# %%
from mine import adam

state = adam.new_state(torch.ones(1857, dtype=torch.bfloat16))
print({name: value if name == "step" else (value.dtype, value.nbytes) for name, value in state.items()})
shards = {n: costs.shard_elements(1857, n) for n in (2, 4)}
print({n: f"slices of {size}, padding {padding}, state {12 * size} bytes" for n, (size, padding) in shards.items()})

# %% [markdown]
# ## 5 · ZeRO-1: everybody updates a slice
#
# Three functions in one cell; ranks are ranks *in the group*, and rank r owns slice r.
#
# - **`mean_slice(tensors, *, group)`**: this rank's slice of the mean over ranks of the tensors, laid out and padded,
#   in their dtype. It must send no more than a reduce-scatter, (N−1)/N of the padded vector's bytes, and leave its
#   inputs alone. *About 4 lines.*
# - **`zero1_state(parameters, *, group)`**: Adam's state of this rank's slice, and of nothing else: 12 bytes for each
#   of its parameters, and nothing is sent. A view of a longer vector keeps all of it alive: one case reads the peak
#   of memory. *2 lines.*
# - **`zero1_step(parameters, mean, state, lr, *, group)`**: one step; `mean` is what your `mean_slice` returns. `state`
#   and, on every rank, all `parameters` are overwritten. The new weights travel in the model's dtype, (N−1)/N of the
#   model. *About 6 lines.*
#
# `mean_and_step` is given: it calls your `mean_slice`, then your `zero1_step`, and sends 2(N−1)/N of the model.
#
# The library: `dist.reduce_scatter_single(mine, flat, group=group)` fills `mine`, `dist.all_gather_single(flat, mine,
# group=group)` fills `flat`. (In older code: `reduce_scatter_tensor` and `all_gather_into_tensor`.)
#
# **By hand**, 2 ranks, the four weights of section 2. `mean_slice` gives rank 0 `[2, 2]`, the mean of `[1, 2]` and
# `[3, 2]`. Its `zero1_state` has master `[5, 5]`, momentum `[0, 0]`, variance `[0, 0]`: 24 bytes. `zero1_step` updates
# the master, gathers both ranks' halves and writes them into the parameters.
#
# **Predict first:** an optimizer that shards nothing ends with the same weights. How will the check know?


# %% exercise="week03.zero1"
def mean_slice(tensors, *, group):
    """This rank's slice of the mean over the ranks of `tensors`, laid end to end and padded."""
    ### BEGIN SOLUTION
    flat = flatten_and_pad(tensors, dist.get_world_size(group))
    mine = flat.new_empty(flat.numel() // dist.get_world_size(group))
    dist.reduce_scatter_single(mine, flat, group=group)
    return mine / dist.get_world_size(group)
    ### END SOLUTION


def zero1_state(parameters, *, group):
    """Adam's state, as adam.new_state makes it, of this rank's slice of the parameters."""
    ### BEGIN SOLUTION
    flat = flatten_and_pad(parameters, dist.get_world_size(group))
    return adam.new_state(flat.chunk(dist.get_world_size(group))[dist.get_rank(group)])
    ### END SOLUTION


def zero1_step(parameters, mean, state, lr, *, group):
    """One step of Adam with this rank's slice of the mean; overwrites `parameters`, a list of tensors, and `state`."""
    ### BEGIN SOLUTION
    adam.update(state, mean, lr=lr)
    mine = state["master"].to(parameters[0].dtype)
    flat = mine.new_empty(mine.numel() * dist.get_world_size(group))
    dist.all_gather_single(flat, mine, group=group)
    for parameter, new in zip(parameters, unflatten(flat, parameters), strict=True):
        parameter.detach().copy_(new)
    ### END SOLUTION


def mean_and_step(parameters, gradients, state, lr, *, group):
    """Given. A whole step: the mean of all ranks' gradients, then Adam."""
    zero1_step(parameters, mean_slice(gradients, group=group), state, lr, group=group)


# %% check="week03.zero1" points=4
case = {"ranks": 4, "numbers": 1857, "dtype": "bfloat16"}
cases = [case | {"subgroup": [1, 3], "part": "slice"}, case | {"part": "state"}]
cases += [case | {"numbers": 6_000_001, "part": "memory"}, case | {"part": "step"}]
cases += [case | {"ranks": 1, "part": part} for part in ("slice", "step")]  # a group of one
check("week03.zero1", mean_slice, zero1_state, mean_and_step, cases=cases)

# %% [markdown]
# ## 6 · ZeRO-2: gradients that leave at once
#
# With ZeRO-1, when the backward ends, every rank holds all gradients, 2P bytes, and needs an N-th of them. But the
# last layer's gradient is complete while the first layer's has not begun. What if it left at once?
#
# torch calls a hook (钩子) as soon as a parameter's gradient is complete. The next cell counts, at each such moment,
# how many gradients exist in a model of six layers. **Predict both lists.**


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
# `parameters`, in their order, this rank's slice of its mean gradient. Each parameter is padded by itself, and each
# byte is reduce-scattered once. Afterwards no parameter has a `.grad`, and at no moment did most of them exist
# together: the check reads the peak of memory (内存峰值) of eight ranks from the kernel. Remove your hooks: the next
# step calls the function again with the same parameters. Use your `mean_slice`. *About 9 lines.*
#
# `mean_square_backward` is given: it makes a loss and calls your function.
#
# **By hand**, 2 ranks, a layer with the weight `[a b]` and the bias `[c]`. The bias may come first: ranks with the
# gradients 2 and 4 reduce-scatter `[2, 0]` and `[4, 0]`; rank 0 keeps the mean `[3]`, rank 1 the padding `[0]`, and
# both forget their 2 and 4. Then the weight: rank 0 keeps the mean for a, rank 1 that for b.
#
# <details><summary>Hint 1: which hook?</summary>
#
# `parameter.register_post_accumulate_grad_hook(f)` calls `f(parameter)` with `.grad` in place. Keep what it returns:
# `.remove()` takes the hook off again.
# </details>
#
# <details><summary>Hint 2: the hook, one line missing</summary>
#
# ```python
# def arrived(parameter):
#     slices[parameter] = mean_slice([parameter.grad], group=group)
#     ...  # who still holds the full gradient?
# ```
# </details>


# %% exercise="week03.zero2"
def zero2_backward(parameters, loss, *, group):
    """Backward of the loss; returns this rank's slice of the mean gradient of each parameter, a list."""
    ### BEGIN SOLUTION
    slices, hooks = {}, []

    def arrived(parameter):
        slices[parameter] = mean_slice([parameter.grad], group=group)
        parameter.grad = None

    for parameter in parameters:
        hooks.append(parameter.register_post_accumulate_grad_hook(arrived))
    loss.backward()
    for hook in hooks:
        hook.remove()
    return [slices[parameter] for parameter in parameters]
    ### END SOLUTION


def mean_square_backward(model, inputs, *, group):
    """Given. The mean square of the outputs is the loss."""
    return zero2_backward(list(model.parameters()), model(inputs).square().mean(), group=group)


# %% check="week03.zero2" points=3
values = {"ranks": 4, "widths": [7, 5, 3], "subgroup": [1, 3], "calls": 2, "part": "slices"}
memory = {"ranks": 8, "widths": [512] * 33, "part": "memory"}
alone = {"ranks": 1, "widths": [3, 2], "part": "slices"}
check("week03.zero2", mean_square_backward, cases=[values, memory, alone])

# %% [markdown]
# ## 7 · Predict, then measure
#
# A small GPT in bf16, trained for two steps on four ranks by the package's `Zero1` and `Zero2`, and on one rank alone:
# there nothing is cut, and a rank of DDP holds the same. Each line `held` has three numbers: weights, gradients,
# optimizer state. Which of them change with the stage, and to what? `sent` counts the bytes of one step.


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
# The bytes held are the formula's, but for four: Adam counts its steps in one more number per vector. And the bytes
# sent do not change with the stage. Week 2's DDP sends as many:


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
title = "What one of four ranks sends in a step: only stage 3 sends more"
figures.show(figure, figures.draw_bars(ax, bars, title=title))

# %% [markdown]
# > **What the meter counts.** A reduce-scatter is booked with a ring's bytes, as it runs between GPUs. The CPU backend
# > gloo makes it out of an all-reduce and throws the rest away: same result, more packets. Which algorithm a library
# > chooses is its business; that you *ask* for no more than a slice is yours.
#
# ## 8 · Bug hunt: three, four, and not five
#
# Gradients are clipped (梯度裁剪) so that their norm (范数) is at most 1. With ZeRO each rank holds a slice, so
# somebody wrote this. Rank 0 holds `[3, 0]`, rank 1 `[4, 0]`. **Which norm does each report, and what becomes of the
# direction of the gradient?**


# %%
def clip_as_found(gradients, max_norm):
    norm = torch.cat(gradients).norm()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / norm, max=1))
    return norm.item(), gradients[0].tolist()


slices = shardlab.PerRank([[torch.tensor([3.0, 0])], [torch.tensor([4.0, 0])]])
print(shardlab.run(clip_as_found, slices, 1.0, ranks=2))

# %% [markdown]
# No exception, and a loss that still falls. The whole was `[3, 0, 4, 0]`, of norm √(9 + 16) = 5, and should have become
# `[0.6, 0, 0.8, 0]`; it became `[1, 0, 1, 0]`: another direction, and still too long. More ranks make it worse.
#
# **`clip_slices(gradients, max_norm, *, group)`** returns the norm of all ranks' slices together and scales this
# rank's `gradients`, a list of tensors, in place. Squares are computed in float32. A rank may hold no slice at all; a
# norm below `max_norm`, or of zero, changes nothing. Slices keep their dtype and stay where they are: each rank may
# send 128 bytes at most. *About 6 lines.*


# %% exercise="week03.clip"
def clip_slices(gradients, max_norm, *, group):
    """Scale this rank's slices so that all ranks' together have a norm of at most max_norm; returns the norm before."""
    ### BEGIN SOLUTION
    total = sum((gradient.float().square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total, group=group)
    norm = total.sqrt()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1))
    return norm
    ### END SOLUTION


# %% check="week03.clip" points=2
cases = [  # "share": of the norm, as max_norm
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
# Open `labs/shardlab/data_parallel/` (`sharded_optimizer.py`, `zero1.py`, `reducing.py`) and, in your installed torch,
# `torch/distributed/optim/zero_redundancy_optimizer.py`.
#
# 1. `"on_the_way"`: many equal buckets have left in a backward of `Zero2`. How many of them, at most, still hold their
#    full gradients when `InBackward.send_full_buckets` returns? A number.
# 2. `"params_by"`: torch's `ZeroRedundancyOptimizer` gives whole parameters to ranks. By which collective do the new
#    ones come back to all, in `_sync_params`? A name.
# 3. `"order"`: `Zero1.step(max_norm=1.0)`: which three collectives run, in order? A list of names as in week 1, with
#    `_`. The calls themselves are in `flat.py` and `clipping.py`.
#
# And in `deepspeed/runtime/zero/stage_1_and_2.py` of DeepSpeed, for yourself:
#
# <details><summary>Where does DeepSpeed avoid the bug of section 8?</summary>
#
# Look for `get_grad_norm_direct`: what a rank has of the sum is all-reduced over `dp_process_group`, and the root is
# taken after it.
# </details>

# %% exercise="week03.reading"
reading_answers = {"on_the_way": None, "params_by": None, "order": None}
### BEGIN SOLUTION
reading_answers["on_the_way"] = 2
reading_answers["params_by"] = "broadcast"
reading_answers["order"] = ["reduce_scatter", "all_reduce", "all_gather"]
### END SOLUTION

# %% check="week03.reading" points=1
check("week03.reading", reading_answers)

# %% [markdown]
# ## 10 · Challenge: tied weights, one message per layer
#
# A message per parameter pays α for every bias. So let a **layer** leave together, as soon as its gradients are
# complete. The model is `model.embedding`, the list `model.blocks`, and `model.head`, whose weight **is** the
# embedding's (权重共享). Its gradient has two parts, one from each end of the model.
#
# **`zero2_by_layer(model, tokens, *, group)`** runs the backward of `model(tokens).square().mean()` and returns this
# rank's slice of each layer that has weights, from the embedding to the last block; a shared weight belongs to the
# first layer that has it. At most **one call per layer**, each byte once, no `.grad` and no hook left, and a peak of a
# few layers. *About 15 lines.*
#
# **By hand**, an embedding E, one block B, a head that is E. The backward runs head, B, embedding. After the head, E's
# gradient has one of its two parts: too early. B is complete, leaves and is freed. After the embedding E is complete;
# torch calls the hook of a shared weight once, when both parts are in. Two layers own weights: two calls, E's slice
# first in the list.
#
# **Predict** for two blocks: which layer leaves first, and which last?


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


# %% check="week03.tied" points=3
values = {"ranks": 4, "model": [11, 3, 2], "subgroup": [0, 2, 3], "calls": 2, "part": "slices"}
memory = {"ranks": 8, "model": [1000, 192, 28], "part": "memory"}  # vocabulary, width, number of blocks
check("week03.tied", zero2_by_layer, cases=[values, memory])

# %% [markdown]
# ## 11 · Interview: 100 million parameters on two GPUs
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
# Now the answer that you would give, in five to eight sentences: the four numbers and where each comes from; which
# stage you would choose on two GPUs, and on 64; what each stage costs in bytes sent (section 7); what else lies in the
# memory of a GPU.

# %% [markdown] manual="week03.interview" points=2
# ### BEGIN SOLUTION
# 16 bytes per parameter are 1.6 GB with DDP. Stage 1 halves the optimizer's 12: 4 + 6 = 10 bytes, 1.0 GB. Stage 2
# halves the gradients as well: 9 bytes, 0.9 GB. Stage 3 halves everything: 8 bytes, 0.8 GB.
#
# On two GPUs stage 1 gives most of the gain and sends no byte more than DDP, 2(N-1)/N of the model; stage 2 costs the
# same bytes and saves another tenth. Stage 3 sends half as many bytes again, 3(N-1)/N, for the last tenth: not here. On
# 64 GPUs stages 1 and 2 end near 4 and 2 bytes per parameter and stage 3 at a quarter byte: what cannot be cut rules.
#
# Beside the states lie activations, which grow with batch and sequence, buckets on their way, temporary buffers of the
# update, and what the allocator wastes.
#
# Full marks: four numbers with their terms, a choice with its bytes sent, one thing beside the states.
# ### END SOLUTION

# %% [markdown]
# ## 12 · Recap
#
# <details><summary>1857 parameters on 4 ranks: what does rank 3 hold of the optimizer's state?</summary>
#
# A slice of 465, of which 3 are padding: 3 · 4 · 465 = 5580 bytes.
# </details>
#
# <details><summary>Stage 2 leaves 2P + 14P/N bytes. Why is the 2P still there?</summary>
#
# Every rank runs the whole forward and backward, and needs all weights for it. Stage 3 gathers them layer by layer.
# </details>
#
# <details><summary>Each rank reports another gradient norm. What do you suspect?</summary>
#
# A norm of a slice, taken for the whole. After a right all-reduce all ranks have the same number.
# </details>
#
# ## 13 · Take away
#
# > **One.** 16 bytes per parameter: 16P → 4P + 12P/N → 2P + 14P/N → 16P/N. The biggest part is the first to be cut.
#
# > **Two.** Stages 1 and 2 send what DDP sends, 2(N−1)/N of the model: the update stands between the two halves of an
# > all-reduce.
#
# > **Three.** What is right for a slice is not right for the whole. Norms, means and counts need the group; a master
# > in float32 keeps what bf16 loses.
#
# ## 14 · Going further
#
# - Rajbhandari and others, *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*, arXiv 1910.02054.
#   Look for: figure 1, and its 7.5B model on 64 GPUs; which of its factors are limits?
# - Micikevicius and others, *Mixed Precision Training*, arXiv 1710.03740. Look for: the share of updates that fp16
#   would lose, and the histogram of gradients that shows why the loss is scaled. Does bf16 need that?
# - DeepSpeed's ZeRO tutorial. Look for: `reduce_bucket_size`, which sets how much leaves in one message, as a layer
#   does in section 10; `overlap_comm`, which lets it travel while the backward goes on.
# - **Labs 1 and 3**: `labs/README.md` says how to run `memory_calculator.py`, and ZeRO's stages 1 and 2 on a small GPT,
#   with predicted and measured bytes side by side.
#
# **An experiment, not graded.** Train the GPT of section 7 for 200 steps with `master_dtype=torch.float32` and without,
# at `lr=1e-4`. Where do the two losses part, and why there?
