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
# # Week 5 · Tensor parallelism (张量并行): one layer, many ranks
#
# *Core: about 150 minutes; optional: about 30 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a layer whose matrices are split over ranks and whose forward and backward match one process;
# - [ ] **prove** with two dot products that an operator and its backward belong together;
# - [ ] **explain** with your own numbers why tensor parallelism usually stops at eight.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>How much does each of N ranks send in a ring all-reduce of S bytes? And in an all-gather?</summary>
#
# 2(N−1)/N · S, and half of that.
# </details>
#
# <details><summary>y = x @ W, and the loss has the gradient dy for y. What are the gradients of x and W?</summary>
#
# dx = dy @ Wᵀ and dW = xᵀ @ dy.
# </details>
#
# <details><summary>What does ZeRO-3 split, and what does every rank still compute in full?</summary>
#
# Weights, gradients and optimizer state are split while they are not in use. Every layer is gathered before it runs:
# the rank's own rows of the batch pass through full matrices.
# </details>

# %%
from functools import partial

import shardlab
import torch
from shardlab import costs, figures, meter, tensor_parallel

from autograder import check

dist, dropout = torch.distributed, torch.nn.functional.dropout

# %% [markdown]
# ## 1 · The problem in numbers
#
# Llama 3 8B has a vocabulary (词表) of 128,256 tokens and a hidden size of 4,096. A sequence of 8,192 tokens passes
# through it on eight GPUs, each with one eighth of every matrix. Which sends more: a whole layer, forward and
# backward, or the loss, which is a single number? Guess, then run.

# %%
tokens, hidden, vocabulary, t = 8192, 4096, 128_256, 8
sent = {
    "a layer, forward and backward": 4 * costs.ring_all_reduce_bytes(t, 2 * tokens * hidden),
    "the loss, all logits gathered": costs.ring_all_gather_bytes(t, 2 * tokens * vocabulary),
    "the loss, three numbers per token": costs.ring_all_reduce_bytes(t, 4 * 3 * tokens),
}
figure, ax = figures.new_axes(7, 1.8)
layer, gathered, _ = sent.values()
title = f"Bytes that one of eight ranks sends: gathered logits cost as much as {gathered / layer:.1f} layers"
figures.show(figure, figures.draw_bars(ax, sent, title=title))

# %% [markdown]
# Three numbers per token are enough. You will find out which three.
#
# ## 2 · The picture first
#
# Two ranks, no code. Both hold `x = [1 2]`. The first matrix is split by **columns** (按列切分), the second by
# **rows** (按行切分), with a relu between them.
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | its column of the first matrix | `[1 2]` | `[3 -2]` |
# | x times its column, then relu | 1·1 + 2·2 = **5** | 1·3 − 2·2 = −1, **0** |
# | its row of the second matrix | `[1 4]` | `[2 2]` |
# | its part of the output | `[5 20]` | `[0 0]` |
# | the sum of both parts | `[5 20]` | `[5 20]` |
#
# No rank ever held `[5 0]`, the full activation in the middle. One message was enough: the sum at the end.
#
# <details><summary>Why not rows first, then columns?</summary>
#
# Splitting by rows gives partial sums: the 5 would be a + b, with a on one rank and b on the other, and relu(a + b)
# is not relu(a) + relu(b). You would need one message before the relu and one after the second matrix.
# </details>
#
# A tensor is in one of three states (分布状态): **R**, replicated (复制): every rank has all of it; **S**, split
# (切分): every rank has a part; **P**, a partial sum (部分和): the ranks' tensors must still be added. This is a
# whole transformer block:

# %%
figure, ax = figures.new_axes(9, 1.9)
figures.show(figure, figures.draw_block(ax, 14))


# %% tags=["interactive"]
@figures.interact(step=(0, 29))
def block(step=20):
    figure, ax = figures.new_axes(9, 1.9)
    figures.show(figure, figures.draw_block(ax, step))


# %% [markdown]
# At step 20 the backward has reached f's copy. Each rank multiplied this copy by *its* columns, so it knows only
# their part of the gradient. f's output is R and its gradient P; g's input is P and its gradient R. Every other tensor
# is in the same state as its gradient.
#
# ## 3 · What it sends
#
# **Notation.** t tensor-parallel (tp) ranks; b sequences of s tokens; hidden size h; vocabulary V.
#
# ### Warm-up: the bill
#
# **`tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary)`** returns three numbers, the bytes that a
# rank sends: in a layer's forward and backward, for the loss when three numbers per token are all-reduced, and for
# the loss when all V logits are gathered, without padding. Activations and logits take two bytes each, the three
# numbers four. Count the all-reduces in the figure, and use plain arithmetic: `costs` is hidden from graded answers.
# *About 4 lines.*
#
# **By hand**, two ranks, one sequence of 2 tokens, hidden size 4, vocabulary 8. An activation takes 2 · 2 · 4 = 16
# bytes, and a ring all-reduce over two ranks sends 2 · 1/2 of that, 16; a layer has four all-reduces: 64. Three
# numbers for 2 tokens are 24 bytes, and their all-reduce sends 24. All logits are 2 · 2 · 8 = 32 bytes, of which an
# all-gather sends half: 16.
#
# > **What the grade varies.** Checks show some cases. Grading draws new numbers: other sizes, one to four ranks, parts
# > of equal and of unequal width, vocabularies that cannot be split evenly, and often a group that is only a part of
# > the world.


# %% exercise="week05.bill"
def tensor_parallel_bill(num_ranks, batch, sequence, hidden, vocabulary):
    """Bytes sent: [a layer both ways, the loss with three numbers per token, the loss with gathered logits]."""
    ### BEGIN SOLUTION
    ring, tokens = 2 * (num_ranks - 1) / num_ranks, batch * sequence
    layer = 4 * ring * 2 * tokens * hidden
    return [layer, ring * 4 * 3 * tokens, ring / 2 * 2 * tokens * vocabulary]
    ### END SOLUTION


# %% check="week05.bill" points=1
llama = {"num_ranks": 8, "batch": 1, "sequence": 8192, "hidden": 4096, "vocabulary": 128256}
gpt2 = {"num_ranks": 2, "batch": 4, "sequence": 1024, "hidden": 768, "vocabulary": 50257}
check("week05.bill", tensor_parallel_bill, cases=[llama, gpt2])

# %% [markdown]
# ## 4 · Two operators, each the other's backward
#
# The Megatron paper calls them **f** and **g**. f passes x to every rank's columns: it does nothing forward and sums
# backward. g adds up the results of the rows: it sums forward and does nothing backward. Why is "nothing" right?
#
# An operator and its backward are **adjoint** (伴随): ⟨f x, y⟩ = ⟨x, f*y⟩ for all x and y. If both tensors of such a
# product are the same on all ranks, it counts once; otherwise add the products of all ranks. By hand: `x = [1 2]` on
# both ranks, and f makes two copies whose gradients are `[3 0]` and `[1 1]`:
#
# | | |
# |---|---|
# | ⟨f x, y⟩, each rank's copy with its gradient | (1·3 + 2·0) + (1·1 + 2·1) = 6 |
# | f*y = `[3 0]` + `[1 1]` = `[4 1]`, so ⟨x, f*y⟩ | 1·4 + 2·1 = 6 |
#
# Read backwards, the table is g's: g sums, and its gradient goes to all ranks unchanged.
#
# **A trap before you write them.** Two ranks hold the same 2 × 3 matrix. On rank 1 it is a transposed view of
# another, so its numbers are stored in a different order in memory (内存). What will the sum be?


# %%
def double_it():
    x = torch.tensor([[0.0, 1, 2], [3, 4, 5]])
    x = x.T.contiguous().T if dist.get_rank() == 1 else x
    total = x.clone()
    dist.all_reduce(total)
    return total.tolist()


print("expected:", [[0, 2, 4], [6, 8, 10]])
print("rank 0:  ", shardlab.run(double_it, ranks=2)[0])

# %% [markdown]
# No error: gloo adds memory element by element, and `clone` keeps the memory layout. A *contiguous* (连续) copy does
# not: `x.clone(memory_format=torch.contiguous_format)`. Megatron-Core 0.16.1 has the opposite bug: its `_reduce`
# reduces `x.contiguous()` and returns `x`. If x was not contiguous, it is returned unchanged: nothing is reduced
# ([Megatron-LM 5337](https://github.com/NVIDIA/Megatron-LM/issues/5337)).
#
# The given next cell applies an operator to x, adds x to the result, and runs the backward. With `transposed`, the
# operator gets transposed tensors in both directions.


# %%
def both_ways(operator, x, gradient, transposed, *, group):
    """Compute y = x + operator(x) and its backward. Returns (y, gradient of x)."""
    leaf = x.clone().requires_grad_()
    x = leaf.T if transposed else leaf
    y = x + operator.apply(x, group)
    y = y.T if transposed else y
    y.backward(gradient)
    return y.detach(), leaf.grad


# %% [markdown]
# **`ToAll`** is f, **`SumOfAll`** is g. `forward` returns the output, `backward` the gradient of x and None for the
# group. Do not modify your inputs: x and the gradient are still needed. *About 12 lines.*
#
# <details><summary>Hint: what an autograd Function keeps</summary>
#
# Set `ctx.group = group` in `forward`, and use `ctx.group` in `backward`. To do "nothing" forward, return
# `x.view_as(x)`.
# </details>


# %% exercise="week05.operators"
### BEGIN SOLUTION
def summed(x, group):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


### END SOLUTION
class ToAll(torch.autograd.Function):  # f
    @staticmethod
    def forward(ctx, x, group):
        ### BEGIN SOLUTION
        ctx.group = group
        return x.view_as(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return summed(gradient, ctx.group), None
        ### END SOLUTION


class SumOfAll(torch.autograd.Function):  # g
    @staticmethod
    def forward(ctx, x, group):
        ### BEGIN SOLUTION
        return summed(x, group)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return gradient, None
        ### END SOLUTION


f_both_ways, g_both_ways = partial(both_ways, ToAll), partial(both_ways, SumOfAll)

# %% check="week05.operators" points=3
four, alone = {"ranks": 2, "rows": 1, "columns": 4}, {"ranks": 4, "rows": 2, "columns": 5, "subgroup": [0, 1, 3]}
cases = [four | {"part": "f"}, alone | {"transposed": True, "part": "f"}]
cases += [four | {"part": "g"}, alone | {"transposed": True, "part": "g"}]
check("week05.operators", f_both_ways, g_both_ways, cases=cases)

# %% [markdown]
# Now the proof, with random numbers on three ranks. The third operator sums in both directions, like torch's own
# differentiable all-reduce. **By what factor will it be off?**


# %%
def two_products(operator, copies_in):
    def drawn(is_copy):
        return torch.randn(5, generator=torch.Generator().manual_seed(0 if is_copy else 1 + dist.get_rank()))

    def product(a, b, is_copy):
        total = (a * b).sum().detach()
        if not is_copy:
            dist.all_reduce(total)
        return round(total.item(), 4)

    x, y = drawn(copies_in).requires_grad_(), drawn(not copies_in)
    output = operator(x)
    output.backward(y)
    return product(output, y, not copies_in), product(x, x.grad, copies_in)


operators = {
    "f": (lambda x: ToAll.apply(x, None), True),
    "g": (lambda x: SumOfAll.apply(x, None), False),
    "g, then f": (lambda x: ToAll.apply(SumOfAll.apply(x, None), None), False),
}
for name, (operator, copies_in) in operators.items():
    print(f"{name}: <op x, y> and <x, backward y> are", shardlab.run(two_products, operator, copies_in, ranks=3)[0])

# %% [markdown]
# f and g print the same number, because the x of one is the y of the other. The third operator is off by a factor of
# t, because every rank already had the full gradient. A model still trains, with a learning rate that depends on t.
# The third operator is right where each rank continues with its own part of the loss; here all have the same loss.
#
# ## 5 · Columns, then rows
#
# There are two biases. `up_bias` is split like the columns. And `down_bias`? By hand, with the numbers of section 2 and
# `down_bias = [10 10]`: if each rank adds it to its part, the sum contains it twice, `[25 40]` instead of `[15 30]`.


# %%
from mine.tensor_parallel import SumOfAll, ToAll


def bias_on_every_rank(x, up, down, bias):
    size, rank = dist.get_world_size(), dist.get_rank()
    part = torch.relu(x @ up.chunk(size, 1)[rank]) @ down.chunk(size, 0)[rank] + bias
    return SumOfAll.apply(part, None)


torch.manual_seed(0)
x, up, down, bias = torch.randn(3, 4), torch.randn(4, 8), torch.randn(8, 4), torch.ones(4)
for ranks in (1, 2, 4):
    off = shardlab.run(bias_on_every_rank, x, up, down, bias, ranks=ranks)[0] - torch.relu(x @ up) @ down - bias
    print(f"{ranks} ranks: off by {off.mean().abs().item():.3f} biases")

# %% [markdown]
# Two serving engines had this bug ([text-generation-inference
# 1036](https://github.com/huggingface/text-generation-inference/issues/1036), [MinivLLM
# 80](https://github.com/Wenyueh/MinivLLM/issues/80)). Others add it only on rank 0 ([nano-vllm
# 99](https://github.com/GeeeekExplorer/nano-vllm/issues/99)), which is correct in the forward and
# enough for serving. **What happens when such a model is trained?**
#
# <details><summary>Then open this</summary>
#
# The copies on the other ranks do not affect the output and get no gradient. Rank 0's copy learns, theirs do not.
# </details>
#
# **`mlp(x, up, up_bias, down, down_bias, *, group)`** returns `relu(x @ up + up_bias) @ down + down_bias`. `up`,
# `up_bias` and `down` are this rank's parts; `x` and `down_bias` are replicated. Use one all-reduce forward and one
# backward. First give f and g Megatron's names: `copy_to_tp(x, group=group)` and `reduce_from_tp(x, group=group)`
# apply `ToAll` and `SumOfAll`. *About 4 lines.*


# %% exercise="week05.mlp"
def copy_to_tp(x, *, group):  # f
    ### BEGIN SOLUTION
    return ToAll.apply(x, group)
    ### END SOLUTION


def reduce_from_tp(x, *, group):  # g
    ### BEGIN SOLUTION
    return SumOfAll.apply(x, group)
    ### END SOLUTION


def mlp(x, up, up_bias, down, down_bias, *, group):
    """relu(x @ up + up_bias) @ down + down_bias, the same on every rank. up, up_bias and down are this rank's parts."""
    ### BEGIN SOLUTION
    inner = torch.relu(copy_to_tp(x, group=group) @ up + up_bias)
    return reduce_from_tp(inner @ down, group=group) + down_bias
    ### END SOLUTION


def mlp_step(x, up, up_bias, down, down_bias, gradient, *, group):
    """Given: the output, and the gradients of x and of this rank's up, up_bias, down and down_bias."""
    leaves = [one.clone().requires_grad_() for one in (x, up, up_bias, down, down_bias)]
    y = mlp(*leaves, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% check="week05.mlp" points=3
equal = {"ranks": 2, "rows": 1, "hidden": 2, "inner": [2, 2]}
uneven = {"ranks": 4, "rows": 2, "hidden": 3, "inner": [5, 3], "subgroup": [1, 3]}
alone = {"ranks": 1, "rows": 2, "hidden": 3, "inner": [4]}
check("week05.mlp", mlp_step, cases=[equal, uneven, alone])

# %% [markdown]
# ## 6 · A loss that never sees the logits
#
# The head's matrix is split by columns, so a rank has the logits (对数几率) for its part of the vocabulary. The loss
# of a token is log Σ exp(logit) − logit of the target. By hand, two ranks, a vocabulary of four, and a target of 2:
#
# | | rank 0 has columns 0 and 1 | rank 1 has 2 and 3 | together |
# |---|---|---|---|
# | logits | 0, ln 2 | ln 4, 0 | |
# | largest | ln 2 | ln 4 | max: **ln 4** |
# | exp(logit − ln 4) | 1/4, 1/2 | 1, 1/4 | sum: **2** |
# | the target's logit | not mine: 0 | ln 4 | sum: **ln 4** |
#
# Loss: ln 2 + ln 4 − ln 4 = ln 2. Three numbers per token. The gradient, softmax (1/8, 1/4, 1/2, 1/8) minus 1 at the
# target, needs no message at all.
#
# Each rank has ⌈V/t⌉ columns. If t does not divide V, the last ones are **padding** (填充): their values are ignored
# and get gradient 0. A rank may have nothing but padding.
#
# **`vocabulary_loss(logits, targets, vocabulary, *, group)`**: `logits` is `[tokens, ⌈V/t⌉]`, this rank's columns,
# float32; `targets` are token numbers, the same on all ranks. It returns the loss of each token, and the gradient of
# their *mean* with respect to this rank's logits. Logits may be as large as 200. An all-reduce takes the maximum with
# `dist.ReduceOp.MAX`. A rank contributes no more than **three numbers per token** to its messages. Which targets are
# this rank's, and in which column, is given: you need `rows`, `place` and `is_mine` for the target's logit and for the
# 1 in the gradient. *About 9 more lines.*


# %% exercise="week05.cross-entropy"
def vocabulary_loss(logits, targets, vocabulary, *, group):
    """(losses [tokens], gradient of their mean [tokens, own columns]) for logits whose columns are split."""
    columns, rows = logits.shape[1], torch.arange(len(targets))
    first = dist.get_rank(group) * columns
    is_mine = (targets >= first) & (targets < first + columns)
    place = (targets - first).where(is_mine, 0)  # always a column that this rank has
    ### BEGIN SOLUTION
    logits = logits.masked_fill(first + torch.arange(columns) >= vocabulary, -torch.inf)
    largest = logits.amax(1)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    exponentials = (logits - largest[:, None]).exp()
    sums = torch.stack([exponentials.sum(1), logits[rows, place].where(is_mine, 0)])
    dist.all_reduce(sums, group=group)
    gradient = exponentials / sums[0][:, None]
    gradient[rows, place] -= is_mine.float()
    return sums[0].log() + largest - sums[1], gradient / len(targets)
    ### END SOLUTION


# %% check="week05.cross-entropy" points=3
large = {"ranks": 4, "tokens": 5, "vocabulary": 13, "subgroup": [0, 2, 3], "large": True}
cases = [{"ranks": 2, "tokens": 2, "vocabulary": 4}, large, {"ranks": 4, "tokens": 3, "vocabulary": 5}]
cases += [{"ranks": 1, "tokens": 2, "vocabulary": 4}]
check("week05.cross-entropy", vocabulary_loss, cases=cases)

# %% [markdown]
# > **Correct plus log t.** If you pass *gathered* logits to a loss that expects split ones, the sum contains every
# > exponential t times. Each loss is too large by exactly log t, and no shape is wrong. That, and a label smoothing
# > that each rank computes with its own part of the vocabulary, are two of the findings of [Megatron-LM
# > 7452](https://github.com/NVIDIA/Megatron-LM/issues/7452).
#
# ## 7 · Predict, then measure
#
# Half a layer (an MLP) on 64 tokens with hidden size 96 in bf16, on 2 and 4 ranks, and the loss over a vocabulary of
# 4,001. Predict the bytes with your function; the loss must also match that of one process. **Which of the three
# numbers grows from 2 to 4 ranks, and by how much?**


# %%
def bytes_measured(x, up, down, logits, targets):
    rank, size = dist.get_rank(), dist.get_world_size()
    zeros, columns = torch.zeros(4 * 96 // size).bfloat16(), -(-4001 // size)
    own_logits = torch.nn.functional.pad(logits, (0, columns * size - 4001)).split(columns, 1)[rank]
    parts = up.chunk(size, 1)[rank], zeros, down.chunk(size, 0)[rank], torch.zeros(96).bfloat16()
    with meter.record() as layer:
        mlp_step(x, *parts, torch.ones_like(x), group=dist.group.WORLD)
    with meter.record() as loss:
        losses, _ = vocabulary_loss(own_logits, targets, 4001, group=dist.group.WORLD)
    with meter.record() as gathered:
        every = [torch.empty_like(own_logits).bfloat16() for _ in range(size)]
        dist.all_gather(every, own_logits.bfloat16().contiguous())
    return layer.sent_bytes, loss.sent_bytes, gathered.sent_bytes, losses


# %%
torch.manual_seed(0)
x, up, down = (torch.randn(*shape).bfloat16() for shape in ((64, 96), (96, 384), (384, 96)))
logits, targets = torch.randn(64, 4001), torch.randint(4001, (64,))
for ranks in (2, 4):
    layer, three, _ = tensor_parallel_bill(ranks, 1, 64, 96, 4001)
    gathered = tensor_parallel_bill(ranks, 1, 64, 96, -(-4001 // ranks) * ranks)[2]  # padding is sent, too
    *measured, losses = shardlab.run(bytes_measured, x, up, down, logits, targets, ranks=ranks)[0]
    print(f"{ranks} ranks: predicted {[layer / 2, three, gathered]}, measured {measured}")
    apart = (losses - torch.nn.functional.cross_entropy(logits, targets, reduction="none")).abs().max()
    print(f"  losses within {apart:.0e} of one process")

# %% [markdown]
# Equal to the byte. All three grow by half (the gathered logits by a little more, because of padding), because
# (t−1)/t goes from 1/2 to 3/4, while each rank's work is halved.
#
# ## 8 · Bug hunt: whose random numbers?
#
# Dropout (随机失活) inside a column-row pair sees split tensors: ranks must drop *different* positions, or the model
# has t copies of one mask. After g it sees replicated tensors: ranks must drop *the same* positions, or the copies
# differ from then on. So there are two streams of random numbers (随机数流), and the code has to use the right one.
# Megatron does so in a `with` statement with two contexts, and had one line wrong from June 2023 on: dropout under
# sequence parallelism drew from the wrong stream ([Megatron-LM
# 1256](https://github.com/NVIDIA/Megatron-LM/issues/1256)). Here is the same mistake. **Run it, and look at the
# masks.**


# %%
from mine.tensor_parallel import copy_to_tp, reduce_from_tp


class OwnNumbers:
    """Inside `with`, torch draws from this rank's own stream; outside, from the stream that all ranks share."""

    def __init__(self, seed):
        self.state = torch.Generator().manual_seed(seed).get_state()

    def __enter__(self):
        self.shared = torch.get_rng_state()
        torch.set_rng_state(self.state)

    def __exit__(self, *_):
        self.state = torch.get_rng_state()
        torch.set_rng_state(self.shared)


def steps_as_found(x, up, down, p, seed, num_steps, *, group):
    torch.manual_seed(seed)
    own, steps = OwnNumbers(seed + 1 + dist.get_rank(group)), []
    for _ in range(num_steps):
        with own and torch.no_grad():
            hidden = dropout(torch.relu(x @ up), p)
        output = dropout(reduce_from_tp(hidden @ down, group=group), p)
        steps.append((hidden, output))
    return steps


# %%
def draw_both(function, title):
    args = torch.rand(6, 4) + 0.5, torch.rand(4, 8) + 0.5, torch.rand(8, 8) + 0.5
    by_rank = shardlab.run(lambda: function(*args, 0.3, 5, 1, group=dist.group.WORLD), ranks=2)
    masks = {
        f"{name} on rank {rank}": (by_rank[rank][0][place] != 0).tolist()
        for place, name in enumerate(("hidden", "output"))
        for rank in range(2)
    }
    figure, ax = figures.new_axes(9, 2)
    figures.show(figure, figures.draw_masks(ax, masks, title=title))


draw_both(steps_as_found, "As found: all ranks drop the same positions of split tensors")

# %% [markdown]
# `hidden` is split: rank 0 and rank 1 have different neurons but drop them in the same pattern. Nothing crashes.
#
# **`dropout_steps(x, up, down, p, seed, num_steps, *, group)`** is the function above without the bug. It returns a
# list of pairs (hidden, output), one per step. Hidden masks differ between ranks and steps; output masks differ
# between steps and are the same on all ranks; no two masks come from the same random numbers. Send no mask. *One
# change to the function above.*


# %% exercise="week05.dropout"
def dropout_steps(x, up, down, p, seed, num_steps, *, group):
    """[(hidden, output), ...] with dropout of probability p: own masks for split tensors, a shared one for copies."""
    ### BEGIN SOLUTION
    torch.manual_seed(seed)
    own, steps = OwnNumbers(seed + 1 + dist.get_rank(group)), []
    for _ in range(num_steps):
        with own, torch.no_grad():
            hidden = dropout(torch.relu(x @ up), p)
        output = dropout(reduce_from_tp(hidden @ down, group=group), p)
        steps.append((hidden, output))
    return steps
    ### END SOLUTION


# %% check="week05.dropout" points=2
equal = {"ranks": 2, "rows": 16, "hidden": 12, "inner": [12, 12], "p": 0.5, "steps": 128}
uneven = {"ranks": 4, "rows": 16, "hidden": 10, "inner": [10, 13], "p": 0.4, "steps": 3, "subgroup": [1, 3]}
check("week05.dropout", dropout_steps, cases=[equal, uneven])

# %%
draw_both(dropout_steps, "Fixed: different masks for split tensors, the same mask for copies")

# %% [markdown]
# `a and b` is `b` if a is true, so the `with` entered only the second context. A comma enters both.
#
# ## 9 · Read real code
#
# `record` runs the installed Megatron-Core on a model of an embedding, `blocks` MLPs, a head and a loss. It notes
# every collective, and every visit to the two matrix products printed below.
#
# **`predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary)`** returns a dict; a run decides. Activations are
# `[s, b, h]`, the embedding's too; `f` is the MLPs' inner width. `tp` may be 1: then f and g send nothing, but the loss
# still makes its calls.
#
# 1. `"ranks"`: the global ranks in this rank's group, one list: `tp` consecutive ranks, for all calls;
# 2. `"weight"`: its shape at the **second** visit to the line in `forward` (the embedding does not reach it);
# 3. `"followed"`: the visits to the line in `backward`, numbered from 1, after which a call comes before the next visit
#    or the end;
# 4. `"calls"`: the shapes of all-reduced tensors, as lists, in order.
#
# **By hand**, two ranks, one MLP: the operator g of embedding and row layer, three numbers per token (`[s, b]` each),
# the operator f of head and column layer: 7 shapes. The backward visits head, row, column: `[1, 3]`. *About 8 lines.*

# %%
from autograder.traces import TensorParallel, places, record

print(places.MATMUL.path, places.MATMUL.source(before=1), sep="\n")
print("...", places.GRAD_INPUT.source(after=13), sep="\n")


# %% exercise="week05.reading"
def predict_trace(rank, world, tp, blocks, s, b, h, f, vocabulary):
    """What Megatron's run shows on this rank: {ranks, weight, followed, calls}."""
    ### BEGIN SOLUTION
    first = rank // tp * tp
    summed = [[s, b, h]] * (1 + blocks) if tp > 1 else []
    return {
        "ranks": list(range(first, first + tp)),
        "weight": [h, f // tp],  # Megatron stores [outputs, inputs]
        "followed": list(range(1, 2 * blocks + 2, 2)) if tp > 1 else [],
        "calls": summed + 3 * [[s, b]] + summed,
    }
    ### END SOLUTION


# %% check="week05.reading" points=2
check("week05.reading", predict_trace)

# %%
sizes = {"world": 8, "tp": 4, "blocks": 2, "s": 3, "b": 1, "h": 8, "f": 16, "vocabulary": 12}
print(record(TensorParallel(**sizes), 6, places.LINEAR))

# %% [markdown]
# ## 10 · Interview: why at most eight?
#
# **`layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node)`** returns two numbers for one GPT
# layer and one sequence, forward and backward: seconds of computation and seconds of communication. The forward takes
# 24h² + 4sh operations per token, the backward twice as many. The ranks share them, each at `flops` operations per
# second.
#
# The messages are those of a layer in your warm-up. While all ranks fit on one node of `per_node` GPUs, they use
# NVLink at `inside` bytes per second. Beyond that NCCL runs several rings at once. Every GPU has its own network card
# (网卡) with `between` bytes per second, and each ring leaves the node through a different card (a *rail*, 轨).
# Together they reach `per_node` times `between`, but never more than `inside`, because every ring also runs over
# NVLink. *About 6 lines.*
#
# **By hand**, one rank, h = 2 and s = 1: the forward takes 24·4 + 4·1·2 = 104 operations, with the backward 312. At
# 100 operations per second that is 3.12 s, without messages. On two ranks it is 1.56 s, plus four all-reduces of
# 2·1·2 = 4 bytes, which send 4 bytes each: 16 / `inside` seconds. Four ranks on two nodes of two send 2 · 3/4 · 4 = 6
# bytes per all-reduce, 24 per rank, through two cards at once: 24 / min(`inside`, 2 · `between`) seconds.


# %% exercise="week05.why-eight"
def layer_seconds(num_ranks, sequence, hidden, flops, inside, between, per_node):
    """(seconds of computation, seconds of communication) of a layer's forward and backward for one bf16 sequence."""
    ### BEGIN SOLUTION
    operations = 3 * (24 * hidden**2 + 4 * sequence * hidden) * sequence
    sent = 4 * 2 * (num_ranks - 1) / num_ranks * 2 * sequence * hidden
    link = inside if num_ranks <= per_node else min(inside, per_node * between)
    return operations / num_ranks / flops, sent / link
    ### END SOLUTION


# %% check="week05.why-eight" points=1
gpt3 = {"sequence": 2048, "hidden": 12288, "flops": 495e12, "inside": 337.5e9, "between": 37.5e9, "per_node": 8}
gb200 = {"flops": 1250e12, "inside": 603e9, "per_node": 72}
cases = [{"num_ranks": 8, **gpt3}, {"num_ranks": 16, **gpt3}, {"num_ranks": 144, **gpt3, **gb200}]
check("week05.why-eight", layer_seconds, cases=cases)

# %% [markdown]
# For GPT-3's layer, take each GPU at half of its peak and links at the speed of published runs (`costs.links_of`, the
# planner's link model). **Guess first:** are 16 H100 faster than 8? And what does a layer cost in GPU time, the
# milliseconds times the number of GPUs?


# %%
def table_of(name, cards=None, sizes=(1, 2, 4, 8, 16, 32, 64)):
    gpu = costs.find_accelerator(name)
    reached, share = costs.links_of(gpu), (cards or gpu.per_node) / gpu.per_node
    print(f"{name}, {gpu.per_node} on a node; network cards of a node: {cards or gpu.per_node}")
    links = {"inside": reached.nvlink, "between": share * reached.network, "per_node": gpu.per_node}
    for ranks in sizes:
        both = layer_seconds(ranks, 2048, 12288, flops=gpu.bf16_flops / 2, **links)
        computing, messages = (1000 * seconds for seconds in both)
        total = computing + messages
        print(f"  t = {ranks:2}: {computing:5.2f} + {messages:5.2f} = {total:5.2f} ms,", end=" ")
        print(f"{messages / total:3.0%} messages, {ranks * total:5.1f} GPU ms")


table_of("h100")
table_of("gb200")
table_of("h100", cards=1, sizes=(8, 16))

# %% [markdown]
# 16 H100 are faster than 8, but a token costs more GPU time. The last table assumes *one* card for eight GPUs, as in
# older servers: there 16 are slower. Users measure 330 to 430 GB/s of "bus bandwidth" for all-reduces over two servers
# of eight H100, eight cards each ([nccl 1221](https://github.com/NVIDIA/nccl/issues/1221)), in one report only 216
# ([2409](https://github.com/NVIDIA/nccl/issues/2409)). Still missing: the latency (延迟) of those messages.

# %%
h100 = costs.links_of(costs.find_accelerator("h100"))
for ranks in (8, 16, 32, 64):
    latency = 4 * costs.links.all_reduce_seconds(h100, costs.links.group_of(h100, ranks), num_bytes=0)
    print(f"t = {ranks:2}: rings of {ranks:2} ranks add {1000 * latency:.2f} ms of latency")

# %% [markdown]
# Now answer in five to eight sentences: what shrinks with t and what does not (your formula, and the bytes you
# measured in section 7); the milliseconds *and the GPU time* of 8 and 16 H100; what else the other eight GPUs could
# do; which network cards your answer assumes, and what changes with 72 GPUs on a node; one other limit of t.

# %% [markdown] manual="week05.interview" points=2
# ### BEGIN SOLUTION
# The work of a rank is 1/t; its bytes are 2(t−1)/t of four activations and grow with t: in section 7 by half from 2 to
# 4 ranks. So the share of messages rises with every doubling, and nothing hides them, because the next matrix waits.
#
# GPT-3's layer takes 6.8 ms on 8 H100, and 15% of it is communication over NVLink. On 16 it takes 4.1 ms: faster,
# because eight rings leave the node through eight cards. But 30% are messages now, twice the GPUs are only 1.6 times as
# fast, and a layer costs 66 GPU ms instead of 55. As a second replica the other eight would process a second sequence
# in the same 6.8 ms, where 16 need 8.3 ms for two. And a replica's gradients, or a stage's activations, can hide behind
# computation, while tensor parallelism now fills every network card at every layer. So t > 8 buys time, not throughput:
# use it when memory, or a batch that must not grow, leaves no other choice.
#
# Eight is the number of GPUs that NVLink connects in such a server. With one card per server 16 take 13 ms and are
# slower than 8. On GB200, 72 share NVLink, and nothing changes at 8: 16 ranks take 1.8 ms, 35% of it messages, and 64
# less than 1 ms, 70% of it messages. Latency comes on top: 0.15 ms at 8, 1.8 ms at 64, more than the bytes take there.
#
# Other limits: t should divide the number of query heads; key heads are replicated when t exceeds their number;
# matrices become thin, and a GPU reaches a smaller part of its peak.
#
# Full marks: 1/t against (t−1)/t with a measured number, time and GPU time of 8 and 16, a better use of the other GPUs,
# the cards assumed (or "node, not eight"), one other limit.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>Over which group is the gradient of a LayerNorm's weight reduced?</summary>
#
# Over no tensor-parallel group: the weight is R, its input is R, and f has made the gradient that reaches it R.
# </details>
#
# <details><summary>Your gradient norm doubles when t goes from 2 to 4. Which two operators do you look at?</summary>
#
# A g whose backward sums, or an f where none belongs: both multiply gradients by t. (A norm that counts R once per rank
# is wrong as well, but from t = 2 to 4 it grows by at most √2.)
# </details>
#
# <details><summary>Which of a bias, a dropout and a relu can you apply to S, to P, and to R?</summary>
#
# To S all three, with the rank's own part of the bias and its own random numbers. To R all three, with the full bias
# and shared random numbers. To P no relu, which does not commute with a sum, and no bias, which would be added t times;
# dropout only with one mask for all ranks.
# </details>

# %% [markdown]
# ## 12 · Take away
#
# > **One.** Columns, then rows: between them everything is split, and one sum ends the pair. A layer needs two
# > all-reduces of b·s·h numbers forward and two backward.
#
# > **Two.** f and g are adjoint: an operator that copies forward sums backward. That holds for replicated weights,
# > too.
#
# > **Three.** Every bug of this week has the right shapes: t biases, t times the gradient, one mask for all ranks.
# > Ask about every tensor: is it R, S or P?
#
# ## 13 · Going further
#
# - Shoeybi and others, *Megatron-LM*, arXiv 1909.08053. Look for: section 3, on why the first matrix is split by
#   columns, and how the loss over the vocabulary is fused with the output layer.
# - Ainslie and others, *GQA*, arXiv 2305.13245. Look for: what sharing keys costs in quality, and what it gains when
#   a model is split.
# - [Megatron-LM 7452](https://github.com/NVIDIA/Megatron-LM/issues/7452): a report, written by a program and not
#   fully verified, of thirteen gradients that are silently wrong. Look for: which of them a single process would
#   reveal.
# - **Labs 1 and 2**: `labs/README.md` says how to run `tp_simulation.py`, and `run_tp_experiment.py` with Megatron's
#   own layers.
#
# **An experiment, not graded.** In `mlp_step`, start the all-reduce of the backward with `async_op=True` before the
# gradient of `up` is computed, as Megatron does, and look at the order of `bill.events`. Which matrix product hides
# it?

# %% [markdown]
# ## Optional · Key heads, DTensor and types
#
# ### Challenge: key heads that two ranks need
#
# Attention (注意力) is split by heads: each rank has some columns of the query matrix and the matching rows of `out`,
# and needs no message in between. With grouped queries (GQA, 分组查询) several query heads share one key and value
# head. Six query heads, three key heads, and two ranks:
#
# | query head | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | on rank | 0 | 0 | 0 | 1 | 1 | 1 |
# | its key head | 0 | 0 | **1** | **1** | 2 | 2 |
#
# Both ranks need key head 1. So the small key and value matrices stay replicated, and each rank uses the heads it
# needs. But then it sees only *its* part of their gradient.
#
# **`attention(x, queries, keys, values, out, width, *, group)`** returns the output of causal attention, `[S, H]`,
# with scores divided by √width. x is `[S, H]`; `queries` `[H, own heads · width]` and `out` `[own heads · width, H]`
# are this rank's parts; `keys` and `values` `[H, kv heads · width]` are replicated. All ranks have the same number of
# query heads, in rank order. In the backward each rank gets the full gradient of keys and values. *About 7 lines.*
#
# `attention_step` is given.
#
# **Target:** two all-reduces of S · H numbers, and one each for the gradients of keys and values, of H · kv heads ·
# width numbers. S is larger than H here: anything else of sequence length is too much.


# %% exercise="week05.heads"
def attention(x, queries, keys, values, out, width, *, group):
    """The output [S, H], the same on every rank. queries and out are this rank's parts, keys and values replicated."""
    ### BEGIN SOLUTION
    own, kv_heads = queries.shape[1] // width, keys.shape[1] // width
    first = dist.get_rank(group) * own
    needed = (first + torch.arange(own)) * kv_heads // (own * dist.get_world_size(group))
    x, keys, values = (copy_to_tp(one, group=group) for one in (x, keys, values))  # f on weights sums their gradients
    q, k, v = ((x @ one).unflatten(1, (-1, width)).transpose(0, 1) for one in (queries, keys, values))
    heads = torch.nn.functional.scaled_dot_product_attention(q, k[needed], v[needed], is_causal=True)
    return reduce_from_tp(heads.transpose(0, 1).flatten(1) @ out, group=group)
    ### END SOLUTION


def attention_step(x, queries, keys, values, out, gradient, width, *, group):
    """Given: the output [S, H], and the gradients of x, own queries, full keys and values, and own out."""
    leaves = [one.clone().requires_grad_() for one in (x, queries, keys, values, out)]
    y = attention(*leaves, width, group=group)
    y.backward(gradient)
    return y.detach(), *(leaf.grad for leaf in leaves)


# %% check="week05.heads" points=3 optional=true
one_for_all = {"ranks": 2, "heads": 2, "kv_heads": 1, "width": 2, "hidden": 4, "sequence": 8}
table = {"ranks": 4, "heads": 6, "kv_heads": 3, "width": 2, "hidden": 6, "sequence": 14, "subgroup": [1, 3]}
fewer = {"ranks": 4, "heads": 8, "kv_heads": 2, "width": 3, "hidden": 5, "sequence": 11}
alone = {"ranks": 1, "heads": 4, "kv_heads": 2, "width": 2, "hidden": 3, "sequence": 7}
check("week05.heads", attention_step, cases=[one_for_all, table, fewer, alone])

# %% [markdown]
# ### The same in four lines of PyTorch
#
# DTensor's `parallelize_module` takes a plan of how each layer is split; the package has such layers as modules. Here
# are both on two ranks, with one process and your MLP:


# %%
def three_ways(x, gradient):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def new_mlp():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))

    whole, theirs = new_mlp(), new_mlp()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(theirs, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    layers = tensor_parallel.ColumnParallelLinear(whole[0], group=None), whole[1]
    layers += (tensor_parallel.RowParallelLinear(whole[2], group=None),)
    found = {}
    for name, module in {"one process": whole, "DTensor": theirs, "shardlab": torch.nn.Sequential(*layers)}.items():
        leaf = x.clone().requires_grad_()
        with meter.record() as bill:
            output = module(leaf)
            output.backward(gradient)
        found[name] = output.detach(), leaf.grad, bill.sent_bytes, bill.kinds
    up, down = layers[0], layers[2]
    with meter.record() as bill:
        parts = [one.detach() for one in (up.weight.T, up.bias, down.weight.T, down.bias)]
        yours = mlp_step(x, *parts, gradient, group=dist.group.WORLD)
    return found | {"your MLP": (*yours[:2], bill.sent_bytes, bill.kinds)}


# %%
found = shardlab.run(three_ways, torch.randn(3, 8), torch.randn(3, 8), ranks=2, timeout=60)[0]
for name, (output, gradient, sent_bytes, kinds) in found.items():
    apart = [(a - b).abs().max().item() for a, b in zip((output, gradient), found["one process"], strict=False)]
    print(f"{name}: output and gradient of x within {max(apart):.0e}, {sent_bytes:g} bytes in {list(kinds)}")

# %% [markdown]
# DTensor's plan has two entries. It does not say where the messages are, what is replicated, and what is split. A
# *type* for each tensor would.
#
# ### Types instead of tests
#
# The states of the figure can be *checked* before any rank starts.
# [spmd_types](https://github.com/meta-pytorch/spmd_types) gives every tensor a type per mesh axis that also says what
# its gradient is: `I`, a copy whose gradient is a copy; `R`, a copy whose gradient is a partial sum (after f); `V`, a
# part; `P`, a partial sum. f is `I → R`, g is `P → I`. After `pip install spmd_types==0.3.1`:


# %%
def typed_mlp(tp, bias_in_the_sum):
    import spmd_types as spmd  # type: ignore[import-not-found]

    x, up, down, bias = torch.randn(2, 4), torch.randn(4, 3), torch.randn(3, 4), torch.randn(4)
    for tensor, its_type in ((x, spmd.I), (up, spmd.V), (down, spmd.V), (bias, spmd.R if bias_in_the_sum else spmd.I)):
        spmd.assert_type(tensor, {tp: its_type})
    part = torch.relu(spmd.convert(x, tp, src=spmd.I, dst=spmd.R) @ up) @ down
    part = spmd.reinterpret(part, tp, src=spmd.V, dst=spmd.P)
    part = part + bias if bias_in_the_sum else part
    y = spmd.all_reduce(part, tp, src=spmd.P, dst=spmd.I)
    return spmd.get_axis_local_type(y if bias_in_the_sum else y + bias, tp)


try:
    import spmd_types.checker  # type: ignore[import-not-found]
except ImportError:
    print("spmd_types is not installed: this section is optional")
else:
    dist.init_process_group(backend="fake", rank=0, world_size=8)  # eight ranks that do not exist
    mesh = dist.init_device_mesh("cpu", (8,), mesh_dim_names=("tp",))
    for bias_in_the_sum in (False, True):
        try:
            with spmd_types.set_current_mesh(mesh), spmd_types.checker.typecheck():
                print("the output is", typed_mlp(mesh.get_group("tp"), bias_in_the_sum))
        except spmd_types.SpmdTypeError as error:
            print("a type error:", str(error).splitlines()[0])
    dist.destroy_process_group()
