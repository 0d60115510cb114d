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
# # Week 6 · Sequence parallelism (序列并行): splitting what tensor parallelism replicates
#
# *Core: about 170 minutes; optional: about 40 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **compute**, to the byte, what a layer keeps for its backward with any kind of splitting and recomputation;
# - [ ] **build** a block that also splits norms and dropout, and a function that is recomputed instead of kept;
# - [ ] **find** partial gradients, gradients that are t times too large, and masks that are drawn twice.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does tensor parallelism (张量并行) send for an MLP?</summary>
#
# It splits the first matrix by columns and the second by rows. g all-reduces the output in the forward, and f
# all-reduces the input's gradient in the backward. [One page](../../docs/one-screen/tensor-parallel.md) shows it.
# </details>
#
# <details><summary>An all-reduce is two collectives, one after the other. Which ones?</summary>
#
# A reduce-scatter, then an all-gather. Each sends (N−1)/N of the bytes.
# </details>
#
# <details><summary>What does autograd keep for `y = x @ w` until the backward?</summary>
#
# x and w: the gradient of w needs x, and that of x needs w. w is stored in any case. x is an **activation** (激活值).
# </details>

# %%
from dataclasses import replace

import shardlab
import torch
from shardlab import costs, figures, meter, model, tensor_parallel

from autograder import check

dist, dropout = torch.distributed, torch.nn.functional.dropout
gelu, layer_norm = torch.nn.functional.gelu, torch.nn.functional.layer_norm

# %% [markdown]
# ## 1 · The problem in numbers
#
# A model of 530 billion parameters and 105 layers is split over 8 GPUs of 80 GB by tensor parallelism and into 35
# stages by a pipeline (流水线, week 7). With the usual schedule the first stage is ahead of the others: it holds 35
# microbatches of its 3 layers, the activations of 105 layers. **Each GPU has one eighth of every matrix. How many
# gigabytes of activations does it hold, not counting weights?** Guess, then run the cell.

# %%
mt_nlg = replace(costs.find_model("mt-nlg-530b"), flash=False)
ways = {
    "tensor parallel 8": costs.Layout(tp=8),
    "and sequence parallel": costs.Layout(tp=8, sequence_parallel=True),
    "and selective recomputation": costs.Layout(tp=8, sequence_parallel=True, recompute="selective"),
}
bars = {name: 105 * costs.layer_activation_bytes_exactly(mt_nlg, way, dropout=True) for name, way in ways.items()}
figure, ax = figures.new_axes(7, 1.9)
title = "Activations on one GPU of the first stage: tensor parallelism alone does not fit"
figures.show(figure, figures.draw_bars(ax, bars, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# A fifth of that is enough. Two ideas achieve this, both from arXiv 2205.05198, "the paper" from here on: split what
# tensor parallelism replicates, and discard what is large but quick to compute.
#
# ## 2 · The picture first
#
# Half a block on two ranks: norm, MLP, residual. In each tile, positions run down and hidden numbers across; a crossed
# tile is a partial sum. Week 5 walked through the upper picture.

# %%
region = figures.Region
outside = [region("x", "whole"), region("norm(x)", "whole")]
inside = [region("gelu(· A)", "columns"), region("· B", "partial")]
figure, ax = figures.new_axes(6.5, 2.1)
title = "Tensor parallel: outside the matrices every rank stores and computes the same"
tensors = [*outside, *inside, region("+ x", "whole", "all-reduce")]
figures.show(figure, figures.draw_regions(ax, tensors, title=title))

parts = [region("x", "positions"), region("norm(x)", "positions"), region("norm(x)", "whole", "all-gather")]
figure, ax = figures.new_axes(7.5, 2.1)
title = "Sequence parallel: the all-reduce becomes two halves, with split tensors in between"
tensors = [*parts, *inside, region("+ x", "positions", "reduce-scatter")]
figures.show(figure, figures.draw_regions(ax, tensors, title=title))

# %% [markdown]
# Norm, dropout and residual work on one position at a time. They do not need the other positions, so each rank can
# process its own. The all-reduce splits into two parts: its reduce-scatter ends one block, and its all-gather begins
# the next. **It sends the same bytes, and no tensor is whole on every rank any more, except right after a gather.**
#
# ## 3 · Notation
#
# **s** sequence, **b** sequences in a microbatch, **h** hidden, **a** heads, **t** ranks. `X[S, H]` is whole, `X[S_t,
# H]` is split by positions, `X[S, F_t]` is split by columns, and `X[S, H]{U_t}` is a partial sum. Activations and
# weights are bf16, 2 bytes; a dropout mask takes 1 byte per number. The sequence is the first dimension: `(s, b, h)`.
#
# ## 4 · What a layer keeps
#
# In bytes, per position of one sequence (table 2 of the paper, divided by sb):
#
# | part of the layer | kept | bytes | tensor parallelism |
# |---|---|---|---|
# | two norms | their inputs | 4h | replicated |
# | attention and MLP | their inputs | 4h | replicated |
# | two dropouts | masks | 2h | replicated |
# | attention | queries, keys, values; the projection's input | 8h | split by heads |
# | MLP | before and after GELU, 4h wide | 16h | split by columns |
# | scores | softmax, mask, after dropout: s numbers per head | 5as | split by heads |
#
# The rows without scores add up to 10 + 24 = 34, so a layer keeps **sbh(34 + 5as/h)** bytes. Sequence parallelism
# also splits the 10. **Selective** recomputation (选择性重计算) discards the scores and computes them again. **Full**
# recomputation keeps only the layer's input.
#
# ### Warm-up: six numbers
#
# **`activation_bytes(s, b, h, a, t)`** returns six numbers, the bytes that one layer keeps on one rank: with no
# parallelism; with tensor parallelism; with tensor and sequence parallelism; the last two again with selective
# recomputation; and with full recomputation (2sbh, not split). Graded answers cannot use `costs`. *About 4 lines.*
#
# **By hand**, s = 2, b = 1, h = 4, a = 2, t = 2: sbh = 8, and the scores are 5as/h = 5 per unit. No parallelism:
# 8·(34 + 5) = 312. Tensor parallel: 8·(10 + 24/2 + 5/2) = 196; with sequence parallelism 312/2 = 156. Selective
# recomputation leaves out the scores: 8·(10 + 12) = 176 and 8·34/2 = 136. Full: 2·8 = 16.
#
# > **What the grade varies.** Checks show some cases. Grading draws new ones: other sizes, float32, float64 and
# > bfloat16, one to four ranks, groups that are only a part of the world, and sequences that cannot be split evenly.


# %% exercise="week06.activations"
def activation_bytes(s, b, h, a, t):
    """Bytes that a layer keeps: [none, tp, tp + sp, tp + selective, tp + sp + selective, full]."""
    ### BEGIN SOLUTION
    unit, scores = s * b * h, 5 * a * s / h
    kept = [unit * (34 + scores), unit * (10 + 24 / t + scores / t), unit * (34 + scores) / t]
    return [*kept, unit * (10 + 24 / t), unit * 34 / t, 2 * unit]
    ### END SOLUTION


# %% check="week06.activations" points=1
gpt3 = {"s": 2048, "b": 1, "h": 12288, "a": 96, "t": 8}
check("week06.activations", activation_bytes, cases=[gpt3, {"s": 512, "b": 4, "h": 768, "a": 12, "t": 2}])

# %% [markdown]
# ## 5 · Two operators, each the other's adjoint
#
# **By hand.** Two ranks hold one position each: rank 0 has 1, rank 1 has 2. After a gather both have `[1, 2]`. Each
# rank multiplies all of it by its own columns, so each has a gradient for all of it: rank 0 `[10, 20]`, rank 1 `[30,
# 40]`. What is the gradient of rank 0's number? Both ranks used it, so it is 10 + 30 = 40, and for rank 1's number
# 20 + 40 = 60. So the backward of the gather is a **sum, scattered**. Keeping only the rank's own part, 10 and 40, is
# the classic mistake: the forward looks right.
#
# The other operator sums the ranks' `[S, H]{U_t}`, and each rank keeps its own positions. Its backward is a gather.
#
# **Adjoint** (伴随) has an exact meaning: ⟨A x, y⟩ = ⟨x, Aᵀ y⟩ for all x and y, where the dot products run over all
# ranks. With the numbers above: 1·10 + 2·20 + 1·30 + 2·40 = 160, and 1·40 + 2·60 = 160.
#
# **Write `gather_sequence` and `scatter_sequence`**, forward and backward. (They are the paper's g and ḡ; week 5's g
# is a different operator.) `x` is `(positions, b, h)` and is not necessarily contiguous in memory (use
# `contiguous()`). If `scatter_sequence` cannot split its positions evenly, raise a ValueError **on every rank, before
# anything is sent**, that names the number of positions and the number of ranks. *About 12 lines.* The check calls
# `there_and_back`; do not change it.
#
# <details><summary>Hint: what to call</summary>
#
# `dist.all_gather_single(whole, part, group=group)` and `dist.reduce_scatter_single(part, whole, group=group)` fill
# their first argument. Then each of the four methods is one line.
# </details>


# %% exercise="week06.operators"
def gathered(x, group):
    """All ranks' x, concatenated in rank order."""
    ### BEGIN SOLUTION
    size = dist.get_world_size(group)
    if size == 1:
        return x
    whole = x.new_empty(size * len(x), *x.shape[1:])
    dist.all_gather_single(whole, x.contiguous(), group=group)
    return whole
    ### END SOLUTION


def scattered(x, group):
    """This rank's positions of the sum of all ranks' x. Raises ValueError, with both numbers, for an uneven split."""
    ### BEGIN SOLUTION
    size = dist.get_world_size(group)
    if len(x) % size:
        raise ValueError(f"a sequence of {len(x)} cannot be split over {size} ranks: use a multiple of {size}")
    if size == 1:
        return x
    part = x.new_empty(len(x) // size, *x.shape[1:])
    dist.reduce_scatter_single(part, x.contiguous(), group=group)
    return part
    ### END SOLUTION


class GatherSequence(torch.autograd.Function):
    """The paper's g: all ranks' positions, concatenated in rank order."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        ### BEGIN SOLUTION
        return gathered(x, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return scattered(gradient, ctx.group), None
        ### END SOLUTION


class ScatterSequence(torch.autograd.Function):
    """The paper's g with a bar: the sum over ranks, of which each rank keeps its positions."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        ### BEGIN SOLUTION
        return scattered(x, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return gathered(gradient, ctx.group), None
        ### END SOLUTION


def gather_sequence(x, *, group):
    ### BEGIN SOLUTION
    return GatherSequence.apply(x, group)
    ### END SOLUTION


def scatter_sequence(x, *, group):
    ### BEGIN SOLUTION
    return ScatterSequence.apply(x, group)
    ### END SOLUTION


def there_and_back(part, whole_gradient, whole, part_gradient, *, group):
    """Given: both operators, forward and backward. Outside them the batch comes first: (b, s, h)."""
    part, whole = part.detach().requires_grad_(), whole.detach().requires_grad_()
    mine = scatter_sequence(whole.transpose(0, 1), group=group)
    mine.backward(part_gradient)
    everything = gather_sequence(part, group=group)
    everything.transpose(0, 1).backward(whole_gradient)
    return everything.detach(), part.grad, mine.detach(), whole.grad


# %% check="week06.operators" points=2
by_hand = {"ranks": 2, "rows": 1, "batch": 2, "width": 2}
three = {"ranks": 4, "rows": 2, "batch": 2, "width": 3, "subgroup": [1, 2, 3], "dtype": "bfloat16"}
uneven = {"ranks": 2, "rows": 1, "batch": 1, "width": 2, "more": 1}
check("week06.operators", there_and_back, cases=[by_hand, three, uneven, by_hand | {"ranks": 1, "rows": 2}])

# %% [markdown]
# **The dot-product test**, on four ranks: the forward of an operator on the left, its backward on the right. If your
# two sides differ, one of your four methods is wrong. (Both lines print one number: the x of one is the other's y.)


# %%
def both_sides(operator, x, y):
    x = x.requires_grad_()
    out = operator(x, group=None)
    out.backward(y)
    sides = torch.stack([(out * y).sum(), (x * x.grad).sum()]).detach()
    dist.all_reduce(sides)
    return sides.tolist()


def dot_products():
    torch.manual_seed(dist.get_rank())
    part, whole = torch.randn(3, 2, 5).double(), torch.randn(12, 2, 5).double()
    return both_sides(gather_sequence, part.clone(), whole), both_sides(scatter_sequence, whole.clone(), part)


for name, sides in zip(("gather", "scatter"), shardlab.run(dot_products, ranks=4)[0], strict=True):
    print(f"{name}: <Ax, y> = {sides[0]:.12f}, <x, A'y> = {sides[1]:.12f}")

# %% [markdown]
# ## 6 · A block on its own positions
#
# **By hand.** A norm's weight, `gain`, is replicated, and its gradient is a sum over positions. Take two positions
# and two hidden numbers: position 0 contributes `[2, −1]`, position 1 `[−3, 1]`. One process gets `[−1, 0]`. Rank 0
# has seen only position 0: `[2, −1]`. Neither rank has the right gradient, and the ranks' copies drift apart from the
# first step on. With f and g alone (week 5) this did not happen, because each rank saw every position.
#
# **`mlp_block(x, gain, shift, columns, rows, *, group)`** returns this rank's positions of `x + gelu(norm(x) @
# columns) @ rows`, with your operators of section 5. **`block_step`** runs a chain of blocks forward and backward; add
# the step that its gradients still need. Send no more than a gather and a scatter per layer and direction, plus the
# norms' gradients. Norms must keep only this rank's positions: the check's last case measures memory. *About 6 lines.*
#
# **Predict first:** which gradients are right without any message: `gain`, `shift`, `columns`, `rows`?
#
# <details><summary>Then open this</summary>
#
# Those of `columns` and `rows`, because their inputs contain all positions. `gain` and `shift` have seen only this
# rank's.
# </details>


# %% exercise="week06.block"
def mlp_block(x, gain, shift, columns, rows, *, group):
    """x + gelu(norm(x) @ columns) @ rows for this rank's positions, (s/t, b, h). columns and rows are its parts."""
    ### BEGIN SOLUTION
    normed = layer_norm(x, gain.shape, gain, shift)
    inner = gelu(gather_sequence(normed, group=group) @ columns)
    return x + scatter_sequence(inner @ rows, group=group)
    ### END SOLUTION


def block_step(x, layers, gradient, *, group):
    """All layers forward and backward: the output, the gradient of x, and per layer those of its four weights."""
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for layer in layers:
        y = mlp_block(y, *layer, group=group)
    y.backward(gradient)
    ### BEGIN SOLUTION
    for gain, shift, _, _ in layers:
        for weight in (gain, shift):
            dist.all_reduce(weight.grad, group=group)
    ### END SOLUTION
    return y.detach(), x.grad, [[weight.grad for weight in layer] for layer in layers]


# %% check="week06.block" points=3
sizes = {"length": 1, "batch": 1, "width": 4, "inner": 2, "layers": 1, "part": "values"}
some = {"ranks": 4, "length": 2, "batch": 2, "width": 5, "inner": 2, "layers": 2, "subgroup": [1, 2, 3]}
long = {"ranks": 4, "length": 512, "batch": 1, "width": 256, "inner": 8, "layers": 16, "part": "memory"}
cases = [{"ranks": 2} | sizes, some | {"part": "values"}, {"ranks": 1} | sizes, long]
check("week06.block", block_step, cases=cases)

# %% [markdown]
# ### Predict, then measure: bytes kept, bytes sent
#
# Your block and one built from week 5's operators: h = 32, an inner width of 4h, 16 positions, b = 2, bf16, 4 ranks.
# According to the table, tensor parallelism keeps, in units of sbh, 2 for the norm's input, 2 for the matrices' input,
# and 16/t. The norm also keeps mean and deviation per position, 4sb bytes that the paper ignores. **What does yours
# keep?**


# %%
from mine.tensor_parallel import copy_to_tp, reduce_from_tp


def tp_block(x, gain, shift, columns, rows, *, group):
    normed = copy_to_tp(layer_norm(x, gain.shape, gain, shift), group=group)
    return x + reduce_from_tp(gelu(normed @ columns) @ rows, group=group)


def kept_and_sent(block, positions):
    weights = [torch.ones(32), torch.zeros(32), torch.randn(32, 32), torch.randn(32, 32)]
    weights = [weight.bfloat16().requires_grad_() for weight in weights]
    x = torch.randn(positions, 2, 32).bfloat16().requires_grad_()
    with meter.record() as bill, meter.saved(weights) as kept:
        y = block(x, *weights, group=None)
    with meter.record() as back:
        y.sum().backward()
    return kept.num_bytes, bill.sent_bytes + back.sent_bytes


s, b, h, t = 16, 2, 32, 4
due = s * b * h * (4 + 16 // t) + 4 * s * b
print(f"tensor parallel:   formula {due}, kept and sent", shardlab.run(kept_and_sent, tp_block, s, ranks=t)[0])
due = s * b * h * (2 + 18 / t) + 4 * s * b / t
print(
    f"sequence parallel: formula {due:.0f}, kept and sent", shardlab.run(kept_and_sent, mlp_block, s // t, ranks=t)[0]
)

# %% [markdown]
# The formula is right to the byte, and both blocks send the same bytes. But one 2 is not divided by t: the gathered
# input of `columns`, kept for their gradient. Megatron and the package keep only the rank's part and **gather it
# again** in the backward, while a matrix product runs: one more all-gather per pair of matrices, and 18/t + 2 becomes
# 20/t.

# %% [markdown]
# ## 7 · Bug hunt: gradients after the backward
#
# Here is the code as found: one block on two ranks, trained with SGD. First the norms' gradients are left as they are
# (`nothing`), then they are averaged (`averaged`). Both are compared with one process that has all positions. **Which
# of the two losses will look wrong?**


# %%
def averaged(gradients):
    for gradient in gradients[:2]:
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)


def train(finish):
    size, rank, generator = dist.get_world_size(), dist.get_rank(), torch.Generator().manual_seed(0)
    x, target = torch.randn(2, 16, 1, 8, generator=generator).double()
    columns, rows = torch.randn(2, 8, 32, generator=generator).double() / 3
    weights = [torch.ones(8).double(), torch.zeros(8).double()]
    weights += [columns.chunk(size, 1)[rank], rows.t().chunk(size)[rank]]
    weights = [weight.clone().requires_grad_() for weight in weights]
    for _ in range(40):
        y = mlp_block(x.chunk(size)[rank], *weights, group=None)
        loss = (y - target.chunk(size)[rank]).square().sum() / target.numel()
        gradients = torch.autograd.grad(loss, weights)
        finish(gradients)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.data -= 0.1 * gradient
    loss = loss.detach()
    dist.all_reduce(loss)
    return loss.item(), weights[0].detach()


def nothing(gradients):
    pass


loss, right = shardlab.run(train, nothing, ranks=1)[0]
print(f"one process: loss {loss:.4f}")
for name, finish in {"nothing": nothing, "averaged": averaged}.items():
    (loss, first), (_, second) = shardlab.run(train, finish, ranks=2)
    apart, off = ((first - other).abs().max() for other in (second, right))
    print(f"{name:8}: loss {loss:.4f}, gains of the ranks differ by {apart:.3f}, from one process by {off:.3f}")

# %% [markdown]
# Neither loss looks wrong; both are even lower. With `nothing`, each rank fits its own gain to its own positions.
# `averaged` is luck: it is behind after 10 steps at a tenth of the learning rate, and after 160 steps at this one.
# Comparing ranks reveals copies that drift apart. Only a comparison with one process reveals the mean: the norms
# learn t times too slowly, which Adam hides. Real cases:
# [Megatron-LM#1446](https://github.com/NVIDIA/Megatron-LM/issues/1446) and
# [gpt-neox#1257](https://github.com/EleutherAI/gpt-neox/pull/1257), without the sum;
# [#1259](https://github.com/EleutherAI/gpt-neox/pull/1259) turns a mean into a sum.
#
# **The opposite mistake** is in [Megatron-LM#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452), finding B1:
# after a gather, every rank does *the same* work. Each then already has the full gradient, and the reduce-scatter in
# your gather's backward adds up t equal ones. In this cell the right gradient is 1:


# %%
def same_work_everywhere():
    part = torch.zeros(2, 1, 3).requires_grad_()
    gather_sequence(part, group=None).sum().backward()
    return part.grad.unique().tolist()


for t in (2, 4):
    print(f"{t} ranks: gradients of {shardlab.run(same_work_everywhere, ranks=t)[0]}")

# %% [markdown]
# **`finish_gradients(gradients, kinds, *, tp_group, dp_group)`** returns new gradients: those of one process, averaged
# over the replicas in `dp_group`. `kinds[i]` is the kind of parameter i: `"split"`, this rank's part of
# a matrix; `"sequence"`, a replicated weight that has seen only this rank's positions; `"whole"`, a replicated weight
# that has seen every position on every rank. On each group, send only what must be sent there. *About 8 lines.*
#
# **By hand**, two replicas of two tensor-parallel ranks each, one number per gradient:
#
# | kind | replica 0 | replica 1 | finished |
# |---|---|---|---|
# | `"sequence"` | 1 and 2, together 3 | 3 and 4, together 7 | 5 on all four ranks |
# | `"split"` | 1 and 2 | 3 and 4 | 2 on the first rank of each replica, 3 on the second |
# | `"whole"` | 6 and 6 | 8 and 8 | 7 on all four ranks |


# %% exercise="week06.norm"
def finish_gradients(gradients, kinds, *, tp_group, dp_group):
    """Finish the gradients of a backward: sums over tp where positions are split, means over dp."""
    ### BEGIN SOLUTION
    finished = []
    for gradient, kind in zip(gradients, kinds, strict=True):
        total = gradient.clone()
        if kind == "sequence":
            dist.all_reduce(total, group=tp_group)
        dist.all_reduce(total, group=dp_group)
        finished.append(total / dist.get_world_size(dp_group))
    return finished
    ### END SOLUTION


# %% check="week06.norm" points=2
cases = [{"sizes": {"tp": 2, "dp": 1}, "numbers": 4}, {"sizes": {"dp": 2, "tp": 3}, "numbers": 50}]
low = {"sizes": {"tp": 2, "dp": 2}, "numbers": 50, "dtype": "bfloat16", "kinds": ("whole", "sequence")}
check("week06.norm", finish_gradients, cases=[*cases, low])

# %% [markdown]
# ## 8 · Recompute instead of keeping
#
# Recomputation (重计算, activation checkpointing) keeps a function's inputs, discards its intermediate results, and
# runs the function again during the backward.
#
# **By hand.** `y = x · mask / keep`, x = `[1, 2, 3, 4]`, keep = 1/2. The forward draws the mask `[1, 0, 1, 0]`, so
# y = `[2, 0, 6, 0]`, and for a gradient of ones x gets `[2, 0, 2, 0]`. If you simply run the function again, it may
# draw the mask `[0, 1, 1, 0]`. The gradient is then `[0, 2, 2, 0]`, which belongs to a different network than the
# loss. So save the random state (随机数状态) before the forward, restore it for the second run, **and set it back
# afterwards**: the next draw must not return the same numbers again.
#
# **Write `Recompute`**: `recompute_function(function, generator, *tensors)` returns `function(*tensors)`, one tensor;
# all inputs need gradients, and the function draws from `generator`. A Function's `forward` runs without a graph, and
# anything not saved in `ctx` (`ctx.name = …` keeps any object) is freed as soon as it returns.
# (`torch.utils.checkpoint` restores only the global generator.) *About 11 lines.*


# %% exercise="week06.recompute"
class Recompute(torch.autograd.Function):
    """Keeps the tensors it is given, and nothing that the function computes from them."""

    @staticmethod
    def forward(ctx, function, generator, *tensors):
        ### BEGIN SOLUTION
        ctx.function, ctx.generator, ctx.state = function, generator, generator.get_state()
        ctx.save_for_backward(*tensors)
        return function(*tensors)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        tensors = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        now = ctx.generator.get_state()
        ctx.generator.set_state(ctx.state)
        with torch.enable_grad():
            output = ctx.function(*tensors)
        ctx.generator.set_state(now)
        return None, None, *torch.autograd.grad(output, tensors, gradient)
        ### END SOLUTION


def recompute_function(function, generator, *tensors):
    ### BEGIN SOLUTION
    return Recompute.apply(function, generator, *tensors)
    ### END SOLUTION


def drop(x, p, generator):
    return x * (torch.rand(x.shape, generator=generator) >= p) / (1 - p)


def through_layers(x, layers, gradient, p, seed):
    """Given: recomputed layers forward and backward. Returns output, gradients of x and of the layers, and a draw."""
    generator = torch.Generator().manual_seed(seed)
    y = x = x.clone().requires_grad_()
    layers = [[weight.clone().requires_grad_() for weight in layer] for layer in layers]
    for up, down in layers:
        y = recompute_function(lambda y, up, down: y + drop(gelu(y @ up), p, generator) @ down, generator, y, up, down)
    y.backward(gradient)
    following = torch.rand(1, generator=generator)
    return y.detach(), x.grad, [[weight.grad for weight in layer] for layer in layers], following


# %% check="week06.recompute" points=3
short = {"rows": 4, "width": 3, "inner": 8, "layers": 2, "p": 0.5, "part": "values"}
long = {"rows": 1024, "width": 16, "inner": 1024, "layers": 10, "p": 0.25, "part": "memory"}
check("week06.recompute", through_layers, cases=[short, long])

# %% [markdown]
# ## 9 · A layer as in Llama
#
# Most models after GPT-3 have other operators. What does each save?
#
# | operator | saves |
# |---|---|
# | RMSNorm | its input, and one float32 per position (LayerNorm saves a mean and a scale) |
# | a matrix | its input; matrices that read the same tensor share it |
# | grouped keys (GQA, 分组查询) | nothing: `a` query heads share `k` key heads and `k` value heads, each `d` wide |
# | attention in one kernel (flash) | queries, keys, values, its output, one float32 per query head and position |
# | SwiGLU, `(silu(x @ gate) * (x @ up)) @ down`, f wide | SiLU its input; the product both factors |
# | rotary positions | cosines and sines, one table for all layers: not counted |
#
# A tensor counts once, no matter how many operators save it.
#
# **By hand**, one position, h = 4, a = 2, k = 1, d = 2, f = 8. A norm saves 2·4 + 4 = 12 bytes, both 24. Their outputs
# take 8 each, 16. Attention: queries 8, keys 4, values 4, the output 8, which the next matrix shares, and a float32
# for each of 2 heads, 8: 32.
# The MLP between its matrices: `x @ gate`, its SiLU, `x @ up` and the product, 4·16 = 64, of which `down` shares the
# last.
#
# **`modern_layer_bytes(s, b, h, a, k, d, f)`** returns these four numbers for one rank, in bytes: the norms; their
# outputs; attention; the MLP between its matrices. *About 4 lines.*


# %% exercise="week06.modern"
def modern_layer_bytes(s, b, h, a, k, d, f):
    """Bytes that a layer as in Llama keeps: [norms, their outputs, attention, the MLP between its matrices]."""
    ### BEGIN SOLUTION
    attention = 2 * (2 * a * d + 2 * k * d) + 4 * a
    return [s * b * each for each in (2 * (2 * h + 4), 2 * 2 * h, attention, 4 * 2 * f)]
    ### END SOLUTION


# %% check="week06.modern" points=2
llama = {"s": 8192, "b": 1, "h": 4096, "a": 32, "k": 8, "d": 128, "f": 14336}
check("week06.modern", modern_layer_bytes, cases=[llama, {"s": 16, "b": 3, "h": 32, "a": 4, "k": 2, "d": 16, "f": 88}])

# %% [markdown]
# **Measured.** This cell runs such a layer, and lists every tensor that autograd keeps. Find each in the table.

# %%
tiny = replace(costs.find_model("llama3-8b"), hidden=128, heads=8, kv_heads=2, head_dim=16, ffn=344)
block, tables = model.ModernBlock(tiny).bfloat16(), torch.rand(2, 64, 8).bfloat16()
with meter.saved([*block.parameters(), tables]) as kept:
    block(torch.randn(2, 64, 128).bfloat16().requires_grad_(), *tables)
due = sum(modern_layer_bytes(64, 2, 128, 8, 2, 16, 344))
print(kept, f"formula {due}, measured {kept.num_bytes}", sep="\n")

norms, outputs, attention, between = modern_layer_bytes(**llama)
total, full = norms + outputs + attention + between, 2 * 8192 * 4096
print(f"Llama 3 8B, 8,192 tokens: {total / 1e9:.2f} GB per layer, {full / 1e9:.2f} with full recomputation")
print(f"attention {attention / total:.0%}, MLP {between / total:.0%}; SiLU and product alone {between / 2 / total:.0%}")

# %% [markdown]
# The kernel *is* selective recomputation: its backward computes the scores again. What is large and cheap to compute
# again is now in the MLP. Kernels matter: torch's RMSNorm on a CPU is made of small operators, which keep float32
# copies of x. (DeepSeek's latent attention: week 11.)

# %% [markdown]
# ## 10 · Read real code
#
# `record` runs the installed Megatron-Core: a column layer, a row layer, and
# `gather_from_sequence_parallel_region` for the output.
#
# **`predict_trace(tp, s, b, h, whole_gradient)`** returns a dict; a run on `tp` ranks decides. `whole_gradient`: every
# rank already has the whole gradient of the output (the last gather has `tensor_parallel_output_grad=False`).
#
# 1. `"calls"`: the names of all calls, forward and backward: `"all_gather"` (or `"all_gather_into_tensor"`), …;
# 2. `"given"`: for each the shape of the tensor that the rank gives;
# 3. `"kept"`: the shapes of `input` and `total_input` at the **second** visit to the line below;
# 4. `"next"`: `[name, shape given]` of the call after the **first** visit.
#
# **By hand**, the forward with t = 2, s = 8: the column layer gathers parts of 4 rows, the row layer reduce-scatters 8,
# the last gather is given 4. Then write each adjoint from right to left, and what the column layer gathers again
# (section 6). *About 8 lines.*

# %%
from autograder.traces import SequenceParallel, places, record

print(places.GRAD_INPUT.path, places.GRAD_INPUT.source(before=5, after=4), sep="\n")


# %% exercise="week06.reading"
def predict_trace(tp, s, b, h, whole_gradient):
    """What Megatron's run shows on every rank: {calls, given, kept, next}."""
    ### BEGIN SOLUTION
    part, whole = [s // tp, b, h], [s, b, h]
    gather, scatter = ("all_gather", part), ("reduce_scatter", whole)
    sums = [] if whole_gradient else [scatter]  # the adjoint of the last gather
    trace = [gather, scatter, gather, *sums, gather, gather, scatter]
    return {
        "calls": [name for name, _ in trace],
        "given": [shape for _, shape in trace],
        "kept": [part, whole],
        "next": gather,
    }
    ### END SOLUTION


# %% check="week06.reading" points=2
check("week06.reading", predict_trace)

# %%
layout = SequenceParallel(world=2, tp=2, s=8, b=1, h=6, f=12, whole_gradient=True)
print(record(layout, 1, places.LINEAR))

# %% [markdown]
# ## 11 · Interview: the activations of a 530B layer
#
# s = 2,048, b = 1, h = 20,480, a = 128, t = 8. **Derive the FLOPs** (a multiply and an add are 2): per position, the
# matrices of a layer, with 12h² weights, cost 24h²; the scores, QKᵀ and the product with V, cost 4sh. A backward
# costs two forwards.
#
# MT-NLG's paper (arXiv 2201.11990, section 2.4) trains these 105 layers with batches of 1,920 sequences and prints:
#
# | A100s | seconds per step | teraFLOP/s per GPU |
# |---|---|---|
# | 2,240 | 60.1 | 126 |
# | 2,800 | 50.2 | 121 |
# | 3,360 | 44.4 | 113 |
#
# **`layer_of_530b()`** returns six numbers: the bytes of a layer with tensor parallelism; the bytes with sequence
# parallelism and selective recomputation; the share of a layer's bytes that selective recomputation saves, with
# sequence parallelism; the FLOPs that it adds, as a share of a layer's forward and backward without recomputation; the
# same share for full recomputation; and the teraFLOP/s of each of the 2,240 GPUs, derived from the 60.1 s and the
# layers' FLOPs, where each forward is computed twice (full recomputation). *About 6 lines.*


# %% exercise="week06.530b"
def layer_of_530b():
    """[bytes tp, bytes tp + sp + selective, share saved, FLOPs of selective, FLOPs of full, teraFLOP/s per GPU]."""
    ### BEGIN SOLUTION
    s, h = 2048, 20480
    _, tp, both, _, selective, _ = activation_bytes(s, 1, h, 128, 8)
    core, matrices = 4 * s * h, 24 * h**2
    per_gpu = 4 * (matrices + core) * 105 * s * 1920 / (60.1 * 2240)
    return [tp, selective, 1 - selective / both, core / (3 * (matrices + core)), 1 / 3, per_gpu / 1e12]
    ### END SOLUTION


# %% check="week06.530b" points=1
check("week06.530b", layer_of_530b)

# %% [markdown]
# Your sixth number is the first row's, so MT-NLG counts the repeated forward as work. **What share of an A100's peak,
# 312, remains without it?**
#
# Which claims about the two ideas hold? The next cell recomputes them:
#
# | claim | source |
# |---|---|
# | a fifth of the memory; over 90% less time for recomputation | the paper's abstract |
# | on 2,240 A100 54.2% of the peak, "29% faster" than 42.1% with full recomputation | the abstract |
# | 280 sequences on 280 GPUs: 49.05 s with full recomputation, 37.83 s with both ideas | the paper's table 5 |
# | these 37.83 s are 56.0% of the peak; 57.0% if recomputed FLOPs count twice | Megatron-LM's README |

# %%
tp, both, saved, again, full, printed = layer_of_530b()
for gpus, seconds in {2240: 60.1, 2800: 50.2, 3360: 44.4}.items():
    counted = printed * 60.1 * 2240 / seconds / gpus
    print(
        f"{gpus} GPUs: {counted:.0f} with the second forward, {0.75 * counted:.0f} without, {0.75 * counted / 312:.0%}"
    )
flops = costs.model_flops_per_token(mt_nlg)
for name, seconds in {"full": 49.05, "both ideas": 37.83}.items():
    share = costs.utilisation(flops, tokens=280 * 2048, seconds=seconds, num_gpus=280, peak_flops=312e12)
    print(f"table 5, {name}: {share:.1%} of the peak")
print(f"{tp / 1e6:.0f} MB become {both / 1e6:.0f} MB, 1/{tp / both:.2f}; selective alone saves {saved:.0%}")
print(f"FLOPs again: {full:.1%} become {again:.2%}, {1 - again / full:.1%} less")
print(f"54.2 / 42.1 = {54.2 / 42.1:.3f}; by FLOPs alone {(1 + full) / (1 + again):.3f}")
print(f"57.0 / 56.0 = {57.0 / 56.0:.4f}; hardware over model by the derivation {1 + again:.4f}")

# %% [markdown]
# Now answer in five to eight sentences: what a layer keeps and why; what each of the two ideas saves and what it costs;
# which claims you have confirmed, which hold only roughly, and which do not follow from FLOPs; what you would do first
# for a model with s = 32,768.

# %% [markdown] manual="week06.interview" points=2
# ### BEGIN SOLUTION
# With tensor parallelism over 8 a layer keeps sbh(10 + 24/8 + 64/8) = 21sbh, 881 MB: the 10 (norms, inputs and dropout
# masks) is replicated on every rank. Sequence parallelism splits it for the same bytes on the wire, which leaves
# 12.25sbh: the all-reduce in two halves, and one more all-gather in the backward. Selective recomputation drops the
# scores, 64 of 98, so 65%, and 4.25sbh or 178 MB are left: 1/4.94, the abstract's fifth.
#
# It costs 4bs²h of 3 · (24bsh² + 4bs²h), 0.55%, where full recomputation costs a third: 98% less, so the abstract's
# "over 90%" of *time* is plausible, since time is more than FLOPs. 54.2/42.1 is 1.287, "29% faster"; FLOPs alone
# would allow 1.326. MT-NLG's 126 teraFLOP/s count the second forward: without it they are 94, 30% of the peak. The
# README's 57.0/56.0 is 1.018, but the derivation gives 1.0055. Either the README counts more
# than the attention core's forward as recomputed (its forward and backward together would give 1.016), or something
# else differs.
#
# At s = 32,768 the scores are 1,024 of 1,058: first use a kernel that never stores them (flash attention), then split
# the sequence further.
#
# Full marks: 21 and 4.25 with their parts, messages of sequence parallelism, 0.55% derived, what is confirmed and what
# is not, scores first for a long sequence.
# ### END SOLUTION

# %% [markdown]
# ## 12 · Recap
#
# <details><summary>Why does sequence parallelism send no more than tensor parallelism?</summary>
#
# An all-reduce is a reduce-scatter and an all-gather. Sequence parallelism works on split tensors between the two.
# </details>
#
# <details><summary>Is a gather's backward a sum, or the rank's own part?</summary>
#
# It depends on what follows. If each rank uses the gathered tensor differently, with its own columns, gradients are
# parts of a sum. If every rank does the same, the gradient is already complete.
# </details>
#
# <details><summary>A layer uses FlashAttention. What does selective recomputation of attention still save?</summary>
#
# Nothing: the scores are not kept.
# </details>
#
# ## 13 · Take away
#
# > **One.** An activation is kept whole, split, or not at all; each is a choice. Know where the numbers in 34 + 5as/h
# > come from.
#
# > **Two.** Every operator has one adjoint. The dot-product test finds a wrong one in a second; the loss does not.
#
# > **Three.** A replicated weight that sees only part of the data has a partial gradient. Ask about every parameter:
# > which part of the data has it seen?
#
# ## 14 · Going further
#
# - Korthikanti and others, *Reducing Activation Recomputation in Large Transformer Models*, arXiv 2205.05198. Look for:
#   table 2, and section 4.2.2 with the two operators.
# - Chen and others, *Training Deep Nets with Sublinear Memory Cost*, arXiv 1604.06174. Look for: keeping only every
#   √n-th layer, so that n layers train in √n memory.
# - PyTorch's `torch/utils/checkpoint.py`. Look for: how the non-reentrant version uses `saved_tensors_hooks`, as
#   `meter.saved` does.
# - **Lab 2**: `labs/README.md` says how to run Megatron's own layers and compare them with ours.

# %% [markdown]
# ## Optional · Recomputation in practice
#
# ### A whole layer, measured
#
# A layer of the package, with attention and dropout, on four ranks. The formula is your `activation_bytes` plus the
# statistics of two norms, 8sb bytes, split or replicated.

# %%
small = model.GPTConfig(layers=1, hidden=128, heads=4, sequence=64, dropout=0.1, flash=False)
paths = {"none": None, "selective": "0.attention.core", "full": "0"}


def layer_kept(sequence_parallel, path):
    plan = tensor_parallel.block_plan(small, sequence_parallel=sequence_parallel)
    block = tensor_parallel.apply_plan(model.Block(small).bfloat16(), plan, group=None)
    if path is not None:
        model.recompute(torch.nn.ModuleList([block]), path)
    length = small.sequence // (dist.get_world_size() if sequence_parallel else 1)
    with meter.saved(block.parameters()) as kept:
        block(torch.randn(2, length, small.hidden).bfloat16().requires_grad_())
    return kept.num_bytes


s, b, t = small.sequence, 2, 4
_, tp, both, tp_selective, both_selective, full = activation_bytes(s, b, small.hidden, small.heads, t)
table = {("tp", "none"): tp + 8 * s * b, ("tp", "selective"): tp_selective + 8 * s * b, ("tp", "full"): full}
table |= {("tp + sp", "none"): both + 8 * s * b / t, ("tp + sp", "selective"): both_selective + 8 * s * b / t}
table["tp + sp", "full"] = full / t
measured = shardlab.run(lambda: [layer_kept(split != "tp", paths[way]) for split, way in table], ranks=t)[0]
for ((split, way), due), num_bytes in zip(table.items(), measured, strict=True):
    print(f"{split:8} {way:10} formula {due:8.0f}   measured {num_bytes:8}")

# %% [markdown]
# ### The least work under a memory cap
#
# You have L equal layers and a cap on the bytes of one microbatch on one rank. Each layer keeps its activations
# (`"none"`), recomputes its attention core (`"selective"`, 4bs²h/t extra FLOPs), or recomputes everything (`"full"`,
# another 24bsh²/t). Your `activation_bytes` says what each keeps. With sequence parallelism, a full layer keeps
# 2sbh/t, because its input is split.
#
# Walk through a plan backwards. In the backward of layer i, **everything** that layer i computes is in memory,
# recomputed or not, and so is what layers 0 … i−1 keep; later layers are freed. The largest of these sums must fit.
#
# | three layers that keep 10 each, 2 if full | last | middle | first | largest |
# |---|---|---|---|---|
# | none, none, full | 10 + 10 + **10** | 10 + **10** | **10** | 30 |
# | full, none, none | 2 + 10 + **10** | 2 + **10** | **10** | 22 |
#
# **`cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes)`** returns a list of L strings, a plan
# that fits and recomputes the fewest FLOPs, or None if nothing fits. *About 15 lines.* Grading uses L up to 118.


# %% exercise="week06.memory-cap"
def cheapest_plan(num_layers, s, b, h, a, t, sequence_parallel, cap_bytes):
    """For each layer "none", "selective" or "full": the fewest extra FLOPs under the cap, or None if nothing fits."""
    ### BEGIN SOLUTION
    _, tp, both, tp_selective, both_selective, full = activation_bytes(s, b, h, a, t)
    none, selective, full = (both, both_selective, full / t) if sequence_parallel else (tp, tp_selective, full)
    core = 4 * b * s**2 * h
    best, others = None, num_layers - 1
    for num_full in range(others + 1):
        for num_selective in range(others + 1 - num_full):
            kept = num_full * full + num_selective * selective + (num_layers - num_full - num_selective) * none
            flops = num_full * (24 * b * s * h**2 + core) + num_selective * core
            if kept <= cap_bytes and (best is None or flops < best[0]):
                best = flops, num_full, num_selective
    if best is None:
        return None
    _, num_full, num_selective = best
    return ["full"] * num_full + ["selective"] * num_selective + ["none"] * (num_layers - num_full - num_selective)
    ### END SOLUTION


# %% check="week06.memory-cap" points=3 optional=true
gpt3_layers = gpt3 | {"num_layers": 12}
caps = [(True, 3 * 10**9), (False, 4_160_000_000), (True, 9 * 10**8), (True, 3 * 10**8)]
cases = [gpt3_layers | {"sequence_parallel": split, "cap_bytes": cap} for split, cap in caps]
cases += [gpt3_layers | {"num_layers": 1, "sequence_parallel": False, "cap_bytes": 10**9}]
longer = {"num_layers": 4, "s": 8192, "b": 1, "h": 1024, "a": 8, "t": 1, "sequence_parallel": False}
check("week06.memory-cap", cheapest_plan, cases=[*cases, longer | {"cap_bytes": 9_060_000_000}])

# %% [markdown]
# **Measured.** Your plan for eight such layers on one rank, with a cap of half of what they would keep: the next cell
# recomputes the model by the plan and counts what autograd keeps, including the last layer.

# %%
sizes = {"s": 64, "b": 2, "h": 128, "a": 4, "t": 1}
cap = 8 * activation_bytes(**sizes)[0] / 2
plan = cheapest_plan(8, **sizes, sequence_parallel=False, cap_bytes=cap)
blocks = torch.nn.ModuleList(model.Block(small).bfloat16() for _ in plan)
for place, way in enumerate(plan):
    if way != "none":
        model.recompute(blocks, f"{place}.attention.core" if way == "selective" else str(place))
x = torch.randn(2, 64, 128).bfloat16().requires_grad_()
with meter.saved(blocks.parameters()) as kept:
    for block in blocks:
        x = block(x)
none, _, _, selective, _, full = activation_bytes(**sizes)
kept_by = {"none": none + 8 * 64 * 2, "selective": selective + 8 * 64 * 2, "full": full}
print(plan, f"cap {cap:.0f}", sep="\n")
print(f"formula {sum(kept_by[way] for way in plan):.0f}, measured {kept.num_bytes}")

# %% [markdown]
# ### A bug to watch
#
# PyTorch's own `checkpoint` has a switch, `preserve_rng_state`. A framework had turned it off, until someone trained
# with dropout ([OLMo-core#828](https://github.com/allenai/OLMo-core/pull/828)): after 150 steps the loss was 2.49 with
# recomputation and 2.19 without. **What does the switch change here: the loss, the gradient, or both?**

# %%
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
x, up, down = torch.randn(64, 32), torch.randn(32, 128) / 6, torch.randn(128, 32) / 11


def loss_and_gradient(run):
    torch.manual_seed(7)
    leaf = x.clone().requires_grad_()
    loss = run(lambda x: x + dropout(gelu(x @ up), 0.1) @ down, leaf).square().mean()
    return loss.item(), torch.autograd.grad(loss, leaf)[0]


loss, right = loss_and_gradient(lambda layer, x: layer(x))
for keeps in (True, False):
    again, gradient = loss_and_gradient(
        lambda layer, x, keeps=keeps: checkpoint(layer, x, use_reentrant=False, preserve_rng_state=keeps)
    )
    off = (gradient - right).norm() / right.norm()
    print(f"preserve_rng_state={keeps}: loss off by {again - loss}, gradient by {off:.1%}")
