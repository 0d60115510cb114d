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
# # Week 12 · Expert parallelism (专家并行): rows move, experts stay
#
# *Core: about 150 minutes; optional: about 70 · 2 to 8 ranks · no GPU needed*
#
# Last week a router chose experts, and all of them were on one device. Now each rank has some of the experts and its
# own tokens, so rows must be sent to their experts and back.
#
# After this week you can
#
# - [ ] **build** dispatch and combine from all-to-alls with uneven sizes, including their backward;
# - [ ] **find** silent failures: a gradient ep times too large, a norm without experts, a rank without rows;
# - [ ] **decide**, from bytes and load, between EP and TP, and between one level and two.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>A layer has 8 experts, k = 2, and a rank has 5 tokens. How many rows go to experts?</summary>
#
# Ten. Each token is copied once for each of its experts.
# </details>
#
# <details><summary>What does an all-to-all do with N ranks?</summary>
#
# Each rank has one piece for each rank. Piece j of rank i goes to rank j, so 1/N of an even load stays local.
# </details>
#
# <details><summary>Which gradient does the router learn from?</summary>
#
# The gradient of the weights: it measures how much each expert's result would have helped its token.
# </details>

# %%
from random import Random

import torch
import torch.distributed as dist
from shardlab import RanksFailed, costs, expert_parallel, figures, meter, model, run

from autograder import check, traces

gelu = torch.nn.functional.gelu

# %% [markdown]
# ## 1 · The problem in numbers
#
# DeepSeek-V3 has 671 billion parameters and uses 37 billion of them per token. Almost all the others belong to
# experts. **Over how many GPUs must you distribute the experts so that their bf16 weights alone fit?** Guess, then
# run the cell.

# %%
v3 = costs.find_model("deepseek-v3")
bars = {f"routed experts, ep {ep}": costs.expert_state_bytes(v3, ep=ep).parameters for ep in (8, 16, 32, 64)}
figure, ax = figures.new_axes(7, 1.9)
title = "On sixteen GPUs, the experts' weights leave no room for anything else"
figures.show(
    figure,
    figures.draw_bars(ax, bars, title=title, limit=costs.find_accelerator("h100").memory_bytes, limit_label="one GPU"),
)

# %% [markdown]
# Splitting each expert, as tensor parallelism does, would also fit; section 10 compares the two. Here you distribute
# whole experts: with **ep** ranks, rank r has the r-th part of them.
#
# ## 2 · The picture first
#
# Each rank has tokens, and a **row** is one token on its way to one of its experts. In the square, each line is a
# sending rank, each column is a receiving rank, and the number is how many rows are sent. The framed rows stay local.
# Below the square is the number of rows that each rank's experts get. One router is even; in the other, the
# popularity of experts follows **Zipf's law** (齐普夫定律): the i-th expert is chosen in proportion to 1/i.


# %%
def table_of(skew, ep, tokens=512, k=2):
    torch.manual_seed(0)
    popular = -skew * torch.arange(1, 4 * ep + 1).log()
    noise = -(-torch.rand(ep, tokens, 4 * ep).log()).log()  # makes topk a draw without replacement
    ranks = (popular + noise).topk(k).indices // 4
    return [torch.bincount(mine.flatten(), minlength=ep).tolist() for mine in ranks]


for skew in (0.0, 1.0):
    figure, ax = figures.new_axes(4.6, 3.4)
    figures.show(figure, figures.draw_exchange(ax, table_of(skew, 4)))

# %%
# Step through it: two ranks of three tokens, four experts, and a router that chooses two for each token.
torch.manual_seed(1)
choices = model.route(torch.randn(2, 3, 4), model.Choice(4, 2)).experts_TK.tolist()
figures.animate("Rows travel to experts and back", figures.dispatch_frames(choices, num_experts=4))


# %% tags=["interactive"]
@figures.interact(skew=(0.0, 2.0, 0.25), ep=(2, 8), k=(1, 4))
def exchange_square(skew=0.5, ep=8, k=2):
    figure, ax = figures.new_axes(5.2, 4.2)
    figures.show(figure, figures.draw_exchange(ax, table_of(skew, ep, k=k)))


# %% [markdown]
# Every rank waits for the fullest column. Note also that the diagonal is 1/ep of an even table: the larger ep is, the
# fewer rows stay local.
#
# ## 3 · The bill
#
# **Notation.** A rank has T tokens of width h; each chooses k of E experts. Numbers are bf16, 2 bytes. Sending rows
# to their experts is called **dispatch** (分发); sending the results back and summing them is called **combine**
# (合并). Each is an all-to-all of T·k rows, of which (ep − 1)/ep leave the rank if the router is even. The backward
# has two more.
#
# A token's k experts are on some of N **nodes**. All k miss a given node with probability C(E − E/N, k) / C(E, k). So
# how many nodes does a token visit? **Node-limited routing** (节点受限路由; DeepSeek-V3, arXiv 2412.19437) lets it
# choose only among the experts of M nodes: the same question with M nodes.
#
# ### Warm-up: four numbers
#
# **By hand.** T = 4, k = 2, h = 3, ep = 2: 4 · 2 rows of 3 numbers of 2 bytes are 48 bytes. Half of them leave: 24
# per all-to-all, 96 for all four. With E = 4 experts on N = 2 nodes, both of a token's experts miss a given node in
# C(2, 2) / C(4, 2) = 1/6 of all cases. So the token visits it in 5/6 of cases, and visits 2 · 5/6 = 1.67 nodes. If
# one node (with its 2 experts) is allowed, it visits 1 node.
#
# **`exchange_bill(tokens, k, hidden, ep, experts, nodes, allowed)`** returns the bytes that a rank sends in one
# all-to-all; the bytes in a layer's forward and backward; nodes per token; and nodes per token if only `allowed`
# nodes may be used. *About 6 lines.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other sizes and routers, one to
# > six ranks, ranks without tokens, experts without rows, one expert that takes all, and groups that are only part of
# > the world.


# %% exercise="week12.bill"
def exchange_bill(tokens, k, hidden, ep, experts, nodes, allowed):
    """Returns [bytes per all-to-all, bytes per layer and step, nodes per token, the same within `allowed`]; bf16."""
    ### BEGIN SOLUTION
    from math import comb

    def visited(count):
        each = experts // nodes
        return count * (1 - comb((count - 1) * each, k) / comb(count * each, k))

    once = tokens * k * hidden * 2 * (ep - 1) / ep
    return [once, 4 * once, visited(nodes), visited(allowed)]
    ### END SOLUTION


# %% check="week12.bill" points=1
v3_layer = {"tokens": 4096, "k": 8, "hidden": 7168, "ep": 64, "experts": 256, "nodes": 8, "allowed": 4}
small = {"tokens": 2048, "k": 2, "hidden": 4096, "ep": 8, "experts": 8, "nodes": 2, "allowed": 1}
check("week12.bill", exchange_bill, cases=[v3_layer, small])

# %% [markdown]
# In the first case, DeepSeek-V3, 5.29 nodes become 3.63. (It sends less than these bf16 bytes: it dispatches in FP8,
# one byte per number, and combines in bf16, forward and backward; see section 3.3.3 of its report. That is (1 +
# 2)/(2 + 2), about three quarters, plus a few bytes for the scaling factors.) **Predict, then measure** the package's
# layer on four ranks, with 512 tokens, k = 2, h = 32, float32. The meter records the payload of each call, and `sent`
# gives how much of it goes to other ranks. Which of the four all-to-alls have the same payload on every rank, and why
# not all?


# %%
def measured():
    torch.manual_seed(0)
    whole, rank = model.MoE(model.MoEConfig(32, 16, model.Choice(8, 2))), dist.get_rank()
    layer = expert_parallel.ParallelMoE(whole, expert_parallel.Splits(dist.group.WORLD))
    x = torch.randn(512, 32, generator=torch.Generator().manual_seed(rank)).requires_grad_()
    sent = (layer.routed(x)[0].experts_TK.flatten() // 2).bincount(minlength=4).tolist()  # two experts per rank
    with meter.record() as bill:
        layer(x).sum().backward()
    rows = [e for e in bill.events if e.kind == "all_to_all" and e.shape[1:] == (32,)]  # without the exchange of counts
    return [e.payload_bytes for e in rows], (sum(sent) - sent[rank]) * 32 * 4


formula = 2 * exchange_bill(512, 2, 32, 4, 8, 1, 1)[0]  # float32
found = run(measured, ranks=4)
for rank, (payloads, leaves) in enumerate(found):
    print(f"rank {rank}: all-to-alls of {payloads} bytes; of the first one {leaves} leave")
print(f"formula {formula:.0f}; mean of the ranks {sum(leaves for _, leaves in found) / 4:.0f}")

# %% [markdown]
# Dispatch sends T·k rows on every rank. Combine sends back the rows that *arrived*, and their number depends on the
# routers of all ranks. The backward is the other way around: combine's backward sends T·k rows, and dispatch's sends
# as many as had arrived. The checks below count what each rank really sends, not the average.
#
# ## 4 · An exchange with uneven parts
#
# **By hand.** Two ranks, one expert each. Rank 0 has tokens a, b, c for experts 0, 1, 1. Rank 1 has d for expert 1.
#
# | | sends | receives | then has |
# |---|---|---|---|
# | rank 0 | `[1, 2]` | `[1, 0]` | a |
# | rank 1 | `[0, 1]` | `[2, 1]` | b c d |
#
# Rank 0 knows `[1, 2]`, but it cannot know that rank 1 has nothing for it. So the ranks exchange counts first. In the
# backward, the gradients of b, c and d are on rank 1, and two of them go to rank 0: the same exchange with *the two
# lists swapped*.
#
# Now a trap: does the collective propagate a gradient?


# %%
def asks_for_a_gradient():
    x = torch.ones(4, 2, requires_grad=True)
    came = torch.empty(4, 2)
    dist.all_to_all_single(came, x, [2, 2], [2, 2])
    return came.requires_grad


print("the result requires a gradient:", run(asks_for_a_gradient, ranks=2))

# %% [markdown]
# There is no error, no warning and no gradient. Everything before the layer would simply stop learning through the
# experts.
#
# **`exchange(x, sent, *, group)`** returns the rows that arrive, ordered by source rank, and a list of how many came
# from each rank; `sent` is such a list, too. Its backward sends gradients back to where the rows came from.
# `dist.all_to_all_single(out, x, out_splits, in_splits, group=group)` fills `out` with `out_splits[r]` rows from each
# rank r; without splits, all parts are equal, as you need for the counts. Send each row once (the counts are extra). A
# rank without rows takes part too, forward and backward. *About 14 lines with the Function.* `exchange_step` is given.


# %% exercise="week12.exchange"
def moved(x, sent, received, group):
    """Sends the first sent[0] rows to rank 0, the next sent[1] to rank 1, …; returns received[r] rows from rank r."""
    ### BEGIN SOLUTION
    came = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(came, x.contiguous(), received, sent, group=group)
    return came
    ### END SOLUTION


class AllToAll(torch.autograd.Function):
    """`moved`, with its adjoint as the backward."""

    @staticmethod
    def forward(ctx, x, sent, received, group):
        ctx.way = sent, received, group
        return moved(x, sent, received, group)

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        sent, received, group = ctx.way
        return moved(gradient, received, sent, group), None, None, None
        ### END SOLUTION


def exchange(x, sent, *, group):
    """Sends sent[r] rows of x (rows, …) to each rank r; returns the rows that arrive and how many from each rank."""
    ### BEGIN SOLUTION
    counts = torch.tensor(sent)
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts, group=group)
    received = received.tolist()
    return AllToAll.apply(x, sent, received, group), received
    ### END SOLUTION


def exchange_step(x, sent, gradient, *, group):
    """Given. Returns the rows that arrive, the counts, and the gradient of x."""
    leaf = x.clone().requires_grad_()
    rows, received = exchange(leaf, sent, group=group)
    return rows.detach(), torch.tensor(received), *torch.autograd.grad(rows, leaf, gradient)


# %% check="week12.exchange" points=3
uneven = {"ranks": 2, "width": 32, "routing": "even"}
idle = {"routing": "a rank receives no row", "special": 1, "subgroup": [1, 2, 3], "dtype": "bfloat16"}
quiet = {"ranks": 3, "width": 32, "routing": "a rank has no token", "special": 2}
cases = [uneven, {"ranks": 4, "width": 32} | idle, quiet, uneven | {"ranks": 1}]
check("week12.exchange", exchange_step, cases=cases)

# %% [markdown]
# ## 5 · Dispatch, experts, combine
#
# **By hand.** Rank 0's tokens a, b choose `[[1, 0], [1, 2]]`, k = 2, and each rank has two experts. The four choices,
# flattened, are `1 0 1 2`. Sorted by expert they are choices `1 0 2 3`, tokens `a a b b`. Three rows stay on rank 0
# and one goes to rank 1: `sent = [3, 1]`. With each row, also send *which* of that rank's experts it needs: `0 1 1`
# to rank 0, and `0` to rank 1 (expert 2 is its first). The results come back in the same order of choices, `1 0 2 3`:
# undo it, multiply by the weights, and sum each token's two results.
#
# **`run_experts(rows, numbers, up, down)`** sends each row through one of this rank's experts; `numbers[i]` says which.
# Sort, split, compute, sort back, as in week 11. *4 lines.*
#
# **`expert_layer(x, experts, weights, up, down, *, group)`** returns each token's weighted sum, (T, h). `experts` and
# `weights` are (T, k), with experts numbered across all ranks. Use your `exchange`: four all-to-alls of rows for
# forward and backward, and a few numbers. (It may exchange counts again: the check allows it.) T may be 0, and PyTorch
# cannot infer a −1 in a shape with 0 rows. *About 9 lines.*


# %% exercise="week12.layer"
def run_experts(rows, numbers, up, down):
    """Returns gelu(row · up[e]) · down[e] for each row; up (own, h, f), down (own, f, h)."""
    ### BEGIN SOLUTION
    order = numbers.argsort(stable=True)
    pieces = rows[order].split(torch.bincount(numbers, minlength=len(up)).tolist())
    done = torch.cat([gelu(piece @ up[e]) @ down[e] for e, piece in enumerate(pieces)])
    return done[order.argsort()]
    ### END SOLUTION


def expert_layer(x, experts, weights, up, down, *, group):
    """Returns the weighted sum (T, h) of each token's experts for x (T, h); this rank has len(up) experts."""
    ### BEGIN SOLUTION
    own, k, chosen = len(up), experts.shape[1], experts.flatten()
    order = chosen.argsort(stable=True)
    sent = torch.bincount(chosen // own, minlength=dist.get_world_size(group)).tolist()
    rows, received = exchange(x[order // k], sent, group=group)
    numbers, _ = exchange(chosen[order] % own, sent, group=group)
    back, _ = exchange(run_experts(rows, numbers, up, down), received, group=group)
    y = back[order.argsort()].view(*experts.shape, x.shape[1])
    return (y * weights[..., None]).sum(1)
    ### END SOLUTION


def layer_step(x, experts, weights, up, down, gradient, *, group):
    """Given. Returns the output and the gradients of x, weights, up and down."""
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down)]
    y = expert_layer(leaves[0], experts, *leaves[1:], group=group)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% check="week12.layer" points=3
pair = {"ranks": 2, "own": 1, "k": 1, "tokens": 9, "hidden": 32, "routing": "even"}
two = {"own": 2, "k": 2, "tokens": 9, "hidden": 32}
idle = two | {"ranks": 4, "routing": "a rank receives no row", "special": 1, "subgroup": [1, 2, 3]}
quiet = two | {"ranks": 3, "routing": "a rank has no token", "special": 0}
check("week12.layer", layer_step, cases=[pair, idle, quiet, two | {"ranks": 1, "routing": "even"}])

# %% [markdown]
# ## 6 · Hang hunt: the rank that had nothing to do
#
# A fast kernel for the products of many experts may reject empty inputs. So a public library checked first: a rank
# that received no rows returned a new empty tensor
# ([PaddleFormers#3010](https://github.com/PaddlePaddle/PaddleFormers/pull/3010);
# [Megatron-LM#3626](https://github.com/NVIDIA/Megatron-LM/pull/3626) is similar). The shape is right, and so is the
# output. **Which rank waits, and in which call?** Here the exchange is the package's, and x is added, as in a
# transformer.


# %%
def kernel(rows, up, down):
    if not len(rows):
        raise ValueError("this kernel needs at least one row")
    return gelu(rows @ up) @ down


def as_found(rows, sizes, up, down):
    if not len(rows):
        return torch.empty(0, down.shape[2])
    return torch.cat([kernel(one, up[e], down[e]) for e, one in enumerate(rows.split(sizes))])


def hunt_by(experts, x, all_sizes, up, down, gradient, *, group):
    """x + experts(x); x is sorted by expert, `all_sizes` has all ranks' experts. Output; gradients of x, up, down."""
    counts, own, size = torch.tensor(all_sizes), len(up), dist.get_world_size(group)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts, group=group)
    sent, received = (one.view(size, own).sum(1).tolist() for one in (counts, theirs))
    leaves = [one.clone().requires_grad_() for one in (x, up, down)]
    rows = expert_parallel.all_to_all(leaves[0], sent, received, group=group, agreed=True)
    order = torch.arange(own).repeat(size).repeat_interleave(theirs).argsort(stable=True)
    y = experts(rows[order], theirs.view(size, own).sum(0).tolist(), *leaves[1:])
    y = leaves[0] + expert_parallel.all_to_all(y[order.argsort()], received, sent, group=group, agreed=True)
    y.backward(gradient)
    return y.detach(), *(one.grad for one in leaves)


# %%
def all_to_rank_0(experts):
    x, up = torch.ones(3, 4), torch.ones(1, 4, 4)
    return [one is not None for one in hunt_by(experts, x, [3, 0], up, up, x, group=None)]


try:
    run(all_to_rank_0, as_found, ranks=2, timeout=4)
except RanksFailed as failure:
    print(failure)

# %% [markdown]
# On rank 1, the result does not depend on anything that it received. Its backward goes only through the residual and
# ends without an error. Rank 0 tries to exchange gradients with rank 1, and waits.
#
# **By hand.** What keeps rank 1 in the backward? Any operation on the received rows, even if there are none: `rows`
# of shape (0, 4) times `up[e]` of shape (4, 4) is legal in PyTorch and gives (0, 4). Its backward returns (0, 4) for
# `rows` and sixteen zeros for `up[e]`. Only `kernel` raises an error.
#
# **`run_anyway(rows, sizes, up, down)`** computes with `kernel`, which it must never call without rows, and takes
# part in the backward on every rank. In addition, a rank's experts need gradients even if no rows arrived: zeros, not
# None. Otherwise the next all-reduce over their copies waits, or the optimizer skips them. *About 3 lines.*


# %% exercise="week12.empty-rank"
def run_anyway(rows, sizes, up, down):
    """Sends the first sizes[0] rows through this rank's expert 0, and so on; some or all sizes may be 0."""
    ### BEGIN SOLUTION
    pieces = enumerate(rows.split(sizes))
    return torch.cat([kernel(one, up[e], down[e]) if len(one) else one @ up[e] @ down[e] for e, one in pieces])
    ### END SOLUTION


def hunt_step(x, all_sizes, up, down, gradient, *, group):
    """Given. Runs the step above with your experts."""
    return hunt_by(run_anyway, x, all_sizes, up, down, gradient, group=group)


# %% check="week12.empty-rank" points=2
some = {"ranks": 2, "own": 2, "routing": "even"}
none = {"ranks": 2, "own": 1, "routing": "a rank receives no row", "special": 1}
one = {"ranks": 4, "own": 2, "routing": "one expert takes all", "special": 3, "subgroup": [1, 2, 3]}
check("week12.empty-rank", hunt_step, cases=[some, none, one])

# %%
print("the output and the gradients exist:", run(all_to_rank_0, run_anyway, ranks=2))

# %% [markdown]
# ## 7 · Bug hunt: gradients that are ep times too large
#
# Take four ranks and ep = 2. Ranks 0 and 1 share one set of experts; ranks 2 and 3 share a copy of it. So there are
# three kinds of groups:
#
# | group | ranks | purpose |
# |---|---|---|
# | dp | 0 1 2 3 | every rank has its own tokens; dense weights are the same everywhere |
# | ep | 0 1 · 2 3 | different experts; rows are exchanged here |
# | edp (专家数据并行) | 0 2 · 1 3 | copies of the same experts |
#
# **By hand.** Suppose that each rank's tokens give an expert the gradient 1, so that the mean over four ranks is 1.
# After the backward, an expert on rank 0 already holds 2, because the all-to-all brought the gradients of ranks 0
# *and* 1. Summing over edp gives 4. **What should you divide by?** By 4, the number of ranks whose tokens it
# includes. DeepSpeed divided by 2, the number of copies
# ([#5618](https://github.com/deepspeedai/DeepSpeed/issues/5618),
# [#6546](https://github.com/deepspeedai/DeepSpeed/pull/6546)): the result is ep times too large. Why did nobody see
# it in the loss?


# %%
def loss_after(optimizer, times, steps=40):
    torch.manual_seed(0)
    x, target, w = torch.randn(64, 8), torch.randn(64, 8), torch.zeros(8, 8, requires_grad=True)
    optimizer = optimizer([w])
    for _ in range(steps):
        w.grad = None
        loss = (x @ w - target).square().mean()
        loss.backward()
        w.grad *= times
        optimizer.step()
    return loss.item()


for name, make in (("Adam", torch.optim.Adam), ("SGD ", torch.optim.SGD)):
    lines = [loss_after(lambda weights, make=make: make(weights, lr=0.01), times) for times in (1, 4)]
    print(f"{name}: loss {lines[0]:.6f}, with gradients four times too large {lines[1]:.6f}")

# %% [markdown]
# Adam divides by the size of its gradients, so a constant factor cancels. With SGD the factor acts like a learning
# rate four times as large, and here that even looks better. But *clipping* does not cancel it.
#
# ## 8 · A norm without the other ranks' experts
#
# The second bug is in the norm. **By hand:** suppose every *averaged* gradient is 1: one dense weight, and one expert
# on each of two ranks. The whole model's norm is √3. A rank that uses only its local gradients finds √2, and clips less
# ([Megatron-LM#5916](https://github.com/NVIDIA/Megatron-LM/pull/5916) fixes a norm without some experts). If ranks
# find *different* norms, they scale the same dense weight differently, and copies drift apart. So each rank sums the
# squares of its own experts, an all-reduce over ep adds those of the others, and you add dense squares once: 1 + 1 +
# 1.
#
# **`finish_gradients(dense, experts, max_norm, *, dp, ep, edp)`** gets two lists of this rank's gradients. It
# averages both over all tokens, and returns the norm of the whole model's averages, and both lists of averages, scaled
# by min(1, max_norm / norm). Work on copies, and send gradients only to the ranks that need them. *About 12 lines.*


# %% exercise="week12.gradients"
def finish_gradients(dense, experts, max_norm, *, dp, ep, edp):
    """Returns the norm (a tensor), and the dense and the expert gradients, averaged and clipped."""

    ### BEGIN SOLUTION
    def mean(gradient, group):
        total = gradient.clone()
        dist.all_reduce(total, group=group)
        return total / dist.get_world_size(dp)

    dense, experts = [mean(one, dp) for one in dense], [mean(one, edp) for one in experts]
    squares = sum((one.square().sum() for one in experts), torch.zeros(()))
    dist.all_reduce(squares, group=ep)
    norm = (squares + sum(one.square().sum() for one in dense)).sqrt()
    scale = (max_norm / norm).clamp(max=1.0)
    return norm, [one * scale for one in dense], [one * scale for one in experts]
    ### END SOLUTION


def gradients_step(dense, experts, max_norm, *, dp, ep, edp):
    """Given. Returns the norm and all gradients in one tuple."""
    norm, dense, experts = finish_gradients(dense, experts, max_norm, dp=dp, ep=ep, edp=edp)
    return norm, *dense, *experts


# %% check="week12.gradients" points=3
by_hand = {"ep": 2, "edp": 1, "clips": 0.5, "by_hand": True}
copies = {"ep": 2, "edp": 2, "clips": 0.5, "dense": 300, "expert": 150}
check("week12.gradients", gradients_step, cases=[by_hand, copies, copies | {"ep": 3, "edp": 1, "clips": 2.0}])

# %% [markdown]
# ## 9 · Two levels: one copy per node
#
# Inside a server, rows are sent over NVLink; between servers, over a slower network: nine times slower on H100s (450
# and 50 GB/s), four times on DeepSeek's H800s (200 and 50; its report uses the 160 GB/s that NVLink achieves, 3.2
# times). A token with four experts on one other node crosses four times. **By hand:** with two experts per rank and
# two ranks per node, token a chooses experts `[4, 5, 7]`, all on node 1, ranks 2 and 3. With one level, three rows
# cross and three come back. With two levels, *one* copy crosses, with its three expert numbers and weights. Node 1
# copies it to ranks 2 and 3, sums the weighted results, and sends *one* sum back.
#
# **Predict:** your formula gave DeepSeek-V3 3.63 nodes per token with a limit of 4. Will a router with random logits
# visit more or fewer?

# %%
logits = torch.randn(4096, 256, generator=torch.Generator().manual_seed(0))
for name, allowed in (("no limit", 8), ("4 nodes", 4)):
    choice = model.Choice(256, 8, groups=8, groups_per_token=allowed)
    nodes = model.route(logits, choice).experts_TK // 32
    visited = torch.zeros(4096, 8).scatter_(1, nodes, 1.0).sum(1).mean()
    formula = exchange_bill(1, 8, 1, 1, 256, 8, allowed)[3]
    print(f"{name}: {formula:.2f} nodes per token by the formula, {visited:.2f} sampled, instead of 8 rows")

# %% [markdown]
# Why 3.98 and not 3.63? The formula assumes that the allowed nodes are random. A real router allows a node *because*
# it has two high scores, so a token almost always uses every allowed node. (DeepSeek-V3 ranks nodes by the sum of
# their best k/M scores, section 2.1.2.) Compared with 5.31 it is still a quarter less, and never more than four.
#
# In the optional part you build this exchange, and place copies of hot experts.

# %% [markdown]
# ## 10 · Interview: EP = 8 or TP = 8 for 64 experts?
#
# A layer of DeepSeekMoE 16B (arXiv 2401.06066) has 64 routed experts, k = 6, h = 2,048, and experts of width 1,408.
# There are eight GPUs with 4,096 tokens each. With **EP**, a GPU has 8 experts. With **TP**, it has an eighth of the
# width of all 64, so it needs the tokens of all ranks: an all-gather of x before, a reduce-scatter of partial sums
# after.
#
# **By hand**, with 2 GPUs, 4 tokens each, h = 3, k = 1: EP sends half of 4 rows, 12 bytes, in each of two
# all-to-alls, 24 in total. TP's all-gather sends 4 tokens to each other GPU (here one), 24 bytes, and so does the
# reduce-scatter: 48 in total. At k = 2, EP also sends 48, and from k = 3 on, TP sends less.
#
# **`ep_or_tp()`** returns five numbers for the real layer in bf16, per GPU: the bytes sent in a forward with EP and
# an even router; the bytes with TP; the smallest k for which TP sends less; the rows that an expert gets on average
# from all GPUs with EP; and the columns of an expert's first matrix that a GPU has with TP. *A few lines.*


# %% exercise="week12.ep-or-tp"
def ep_or_tp():
    """Returns [bytes with EP, bytes with TP, k, rows, columns]."""
    ### BEGIN SOLUTION
    tokens, k, h, gpus = 4096, 6, 2048, 8
    spread = 2 * exchange_bill(tokens, k, h, gpus, 64, 1, 1)[0]
    cut = 2 * (gpus - 1) * tokens * h * 2
    return [spread, cut, gpus + 1, gpus * tokens * k / 64, 1408 / gpus]
    ### END SOLUTION


# %% check="week12.ep-or-tp" points=1
check("week12.ep-or-tp", ep_or_tp)

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: the bytes, and the k from which TP sends less; the
# shapes of the matrix products; the problem that EP has and TP does not; and when you would choose each.

# %% [markdown] manual="week12.interview" points=2
# ### BEGIN SOLUTION
# EP = 8. It sends 176 MB per GPU and forward; TP sends 235 MB. EP's bytes grow with k, TP's do not, and they are equal
# at k = 8, the number of GPUs. Weights, optimizer state and FLOPs per GPU are the same. But with TP, an expert's matrix
# is 176 columns wide for 3,072 rows; with EP it is 1,408 wide, which keeps the hardware busier. TP also sums partial
# results.
#
# EP pays with imbalance: the fullest GPU sets the pace, so it needs a loss or bias, copies of hot experts, and
# all-to-alls with uneven sizes. TP is even for any router. I would choose TP, or some TP inside experts, when there are
# few large experts, fewer than GPUs; when k is near the number of GPUs; or with a batch of a few tokens, where
# imbalance is worst. Across nodes, only EP can be limited to a few nodes. First I would measure the ratio of the
# fullest rank to the mean, and the exposed time of the four all-to-alls.
#
# Full marks: k compared with the number of GPUs, both byte counts, the shape of the products, imbalance, one case for
# TP.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Read real code
#
# `record` runs the installed Megatron-Core: its `MoEAlltoAllTokenDispatcher`, on real ranks. The experts multiply rows
# by their weights.
#
# **`predict_trace(rank, experts, h, routes)`** returns a dict; a run decides. `routes[r][i]` lists the experts of rank
# r's token i; consecutive experts share a rank.
#
# 1. `"sent"`: how many rows the first all-to-all sends to each rank;
# 2. `"received"`: how many come from each rank;
# 3. `"given"`: the shapes that this rank gives to **all** all-to-alls, in the order of the calls: forward, then
#    backward, which begins with the call that ran last. `token_dispatch`, printed below, shows what travels with the
#    rows.
#
# **By hand**, two ranks, four experts: rank 0's token with experts 0 and 1 counts twice, both rows for rank 0. If rank
# 0 sends 6 rows and receives 5, the dispatch is given `[6, h]` and `[6]`, the combine `[5, h]`. **Predict first**: the
# last cell of this section prints your answer for one layout, and then Megatron's. *About 8 lines.*

# %%
dispatch, place = traces.places.TOKEN_DISPATCH, traces.places.ALL_TO_ALL
print(dispatch.path, dispatch.source(after=3), place.path, place.source(before=14), sep="\n")


# %% exercise="week12.reading"
def predict_trace(rank, experts, h, routes):
    """What Megatron's run shows on this rank, one of two or more: {sent, received, given}."""
    ### BEGIN SOLUTION
    own = experts // len(routes)

    def rows(source, target):
        return sum(expert // own == target for token in routes[source] for expert in token)

    sent = [rows(rank, other) for other in range(len(routes))]
    received = [rows(other, rank) for other in range(len(routes))]
    n, m = sum(sent), sum(received)
    given = [[n, h], [n], [m, h], [n, h], [m], [m, h]]  # backward: combine, weights, rows
    return {"sent": sent, "received": received, "given": given}
    ### END SOLUTION


# %% check="week12.reading" points=2
check("week12.reading", predict_trace)

# %%
routes = (((0, 2), (0, 1), (2, 3)), ((2, 3), (1, 2), (0, 3)))
layout = traces.Experts(world=2, experts=4, h=8, routes=routes)
print("your prediction:", predict_trace(0, 4, 8, routes))
print(traces.record(layout, 0, traces.places.DISPATCH, real=True))

# %% [markdown]
# ## 12 · Recap
#
# <details><summary>What must a rank do if it receives no rows?</summary>
#
# Everything: call each all-to-all, forward and backward, and produce zero gradients for its experts.
# </details>
#
# <details><summary>Over which group do you sum expert gradients, and what do you divide by?</summary>
#
# Sum over edp, the copies, and divide by the size of dp, all ranks that have tokens.
# </details>
#
# <details><summary>What do two levels save, and how can they save more?</summary>
#
# They save rows across nodes: one per node that a token visits, instead of k. A limit on nodes keeps that number small.
# </details>
#
# ## 13 · Take away
#
# > **One.** There are three exchanges: counts, rows, results. The backward is the same with the two lists swapped, on
# > every rank.
#
# > **Two.** For each gradient, ask which ranks' tokens it includes and which ranks have a copy. The loss will not
# > show it.
#
# > **Three.** Bytes follow k; time follows the fullest rank. Node limits help with the first, copies with the second.
#
# ## 14 · Going further
#
# - Lepikhin et al., *GShard*, arXiv 2006.16668. Look for: why its capacity makes every all-to-all even.
# - DeepSeek-AI, *DeepSeek-V3*, arXiv 2412.19437. Look for: section 3.2.2, how few of a GPU's multiprocessors (SMs) do
#   the dispatching.
# - Gale et al., *MegaBlocks*, arXiv 2211.15841. Look for: what replaces capacity.
# - [megablocks#86](https://github.com/databricks/megablocks/issues/86). Look for: the explanation of the division.
#
# **An experiment, not graded.** In section 2, how much skew makes the fullest of 8 ranks twice as full as the mean?
# How much would a factor of two in the experts' time cost a step that spends half of its time there?

# %% [markdown]
# ## Optional · Two levels, a place for every expert, and eight ranks
#
# ### Build the two levels
#
# **`two_level_layer(x, experts, weights, up, down, *, across, inside)`** does what `expert_layer` does. `inside` is
# this node's group; `across` has the ranks with the same local rank on every node. Rank r of the world is on node r
# // size(inside), and experts are in rank order. Each other node that a token needs receives one copy, with its
# experts and weights, and sends one sum back. (Your own node may take part in the exchange: that copy does not cross.)
# *About 14 lines:* treat a node as one large rank, and use your layer inside it.


# %% exercise="week12.two-level"
def two_level_layer(x, experts, weights, up, down, *, across, inside):
    """Returns the weighted sums (T, h), sending one copy of a token to each node that has experts for it."""
    ### BEGIN SOLUTION
    per_node, node = len(up) * dist.get_world_size(inside), dist.get_rank(across)
    nodes = torch.arange(dist.get_world_size(across))
    wanted = (experts // per_node == nodes[:, None, None]).any(-1)
    sent, token = wanted.sum(1).tolist(), wanted.nonzero()[:, 1]
    copies, received = exchange(x[token], sent, group=across)
    theirs, _ = exchange(experts[token], sent, group=across)
    scales, _ = exchange(weights[token], sent, group=across)
    here, choice = (theirs // per_node == node).nonzero(as_tuple=True)
    chosen, scale = theirs[here, choice] % per_node, scales[here, choice]
    done = expert_layer(copies[here], chosen[:, None], scale[:, None], up, down, group=inside)
    back, _ = exchange(torch.zeros_like(copies).index_add(0, here, done), received, group=across)
    return torch.zeros_like(x).index_add(0, token, back)
    ### END SOLUTION


def two_level_step(x, experts, weights, up, down, gradient, *, across, inside):
    """Given. Returns the output and the gradients of x and weights."""
    leaves = [one.clone().requires_grad_() for one in (x, weights)]
    y = two_level_layer(leaves[0], experts, leaves[1], up, down, across=across, inside=inside)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% check="week12.two-level" points=3 optional=true
servers = {"inside": 2, "across": 2, "own": 2, "k": 4, "allowed": 1, "tokens": 12, "hidden": 64}
silent = servers | {"own": 3, "k": 3, "allowed": 2, "quiet": 2}
three = servers | {"across": 3, "own": 1, "k": 3, "allowed": 2}
alone = servers | {"inside": 1, "across": 1, "own": 4, "k": 3}
check("week12.two-level", two_level_step, cases=[servers, silent, three, alone])


# %% [markdown]
# **Measure.** With two nodes of two ranks, 16 experts, 4 choices and h = 64, how many bytes of one forward go into
# exchanges that reach another node? Compare no limit with one node per token.


# %%
def across_nodes(levels, allowed):
    across, inside = (dist.new_subgroups_by_enumeration(ids)[0] for ids in ([[0, 2], [1, 3]], [[0, 1], [2, 3]]))
    generator, rank = torch.Generator().manual_seed(dist.get_rank()), dist.get_rank()
    x, up = torch.randn(256, 64, generator=generator), torch.ones(4, 64, 8)
    logits = torch.randn(256, 16, generator=generator)
    chosen = model.route(logits, model.Choice(16, 4, groups=2, groups_per_token=allowed))
    given = x, chosen.experts_TK, chosen.weights_TK, up, up.mT
    with meter.record() as bill, torch.no_grad():
        expert_layer(*given, group=None) if levels == 1 else two_level_layer(*given, across=across, inside=inside)
    return sum(e.payload_bytes for e in bill.events if any(other // 2 != rank // 2 for other in e.members))


for allowed in (2, 1):
    one, two = (sum(run(across_nodes, levels, allowed, ranks=4)) for levels in (1, 2))
    visited = exchange_bill(1, 4, 1, 1, 16, 2, allowed)[3]
    print(f"{allowed} of 2 nodes: {one / 1e6:.2f} MB and {two / 1e6:.2f} MB, {one / two:.2f} times less; ", end="")
    print(f"k over nodes per token is {4 / visited:.2f}")

# %% [markdown]
# Expert numbers and weights are sent with each copy: noticeable at h = 64, negligible at 7,168.
#
# ### Challenge: a place for every expert
#
# Loads follow Zipf's law, and 256 experts are on 32 GPUs, four nodes of eight. The fullest GPU has more than five
# times the mean load, and all others wait for it. **EPLB** ([deepseek-ai/EPLB](https://github.com/deepseek-ai/EPLB))
# makes copies of hot experts, which share their tokens, and packs them: with nine places per GPU, 32 places are for
# copies. Its *hierarchical* policy keeps each group of experts on one node, as node-limited routing requires; its
# *global* policy does not. `placed` is our reimplementation.
#
# **By hand.** Four experts with loads 6, 2, 2, 2 on two GPUs with two places each give 6 + 2 and 2 + 2: the fuller
# GPU has 8, and the mean is 6. Three places per GPU leave room for two copies. If both go to the hot expert, the
# loads are 2, 2, 2 and 2, 2, 2, which is even. If the hot expert and expert 1 have their home on the first GPU's
# node, the GPUs hold `hot hot 1` and `2 3 hot`: one place of six is away from home.

# %%
loads = [1000 / (rank + 1) for rank in range(256)]
Random(40).shuffle(loads)


def policy(groups, nodes, places=288):
    return expert_parallel.placed(loads, num_places=places, num_groups=groups, num_nodes=nodes, num_gpus=32)


print(f"no copies, hierarchical: {policy(8, 4, 256).imbalance(loads):.2f} times the mean on the fullest GPU")
print(f"32 copies, hierarchical: {policy(8, 4).imbalance(loads):.2f}")
print(f"32 copies, global:       {policy(1, 1).imbalance(loads):.2f}")

# %% [markdown]
# The hierarchical policy cannot be even, because the loads of the nodes are not. The global policy is even, but it
# scatters experts over all nodes, so the limit on nodes per token is lost. **Is there something in between?**
#
# **`place(loads, homes, places_per_gpu, gpus_per_node)`** returns a list of experts for each GPU, with the GPUs of
# node 0 first. Every expert appears at least once, and no place is empty. `homes[e]` is the node of expert e, and there
# are max(homes) + 1 nodes. Copies share a load evenly, and a GPU may hold two copies of an expert. There are two
# targets: the fullest GPU is *within 5% of the mean* (one point), and at most *an eighth of all places* hold an expert
# away from home (two more points). *About 30 lines.*


# %% exercise="week12.placement"
def place(loads, homes, places_per_gpu, gpus_per_node):
    """Returns a list of `places_per_gpu` experts for each GPU."""
    ### BEGIN SOLUTION
    num_nodes, room = max(homes) + 1, gpus_per_node * places_per_gpu
    copies = [1] * len(loads)
    for _ in range(num_nodes * room - len(loads)):
        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
    share = [load / number for load, number in zip(loads, copies, strict=True)]
    nodes = [[e for e in range(len(loads)) for _ in range(copies[e]) if homes[e] == node] for node in range(num_nodes)]

    def load(node):
        return sum(share[e] for e in nodes[node])

    def give(source, target, at):
        nodes[source].sort(key=share.__getitem__)
        nodes[target].append(nodes[source].pop(at))

    while max(map(len, nodes)) > room:  # too many copies: move the hottest off a hot node, the coldest off a cold one
        full = max(range(num_nodes), key=lambda node: len(nodes[node]))
        target = min((node for node in range(num_nodes) if len(nodes[node]) < room), key=load)
        give(full, target, -1 if load(full) > load(target) else 0)
    for _ in range(room):  # swap the hottest copy of the fullest node with the coldest copy of the emptiest
        hot, cold = max(range(num_nodes), key=load), min(range(num_nodes), key=load)
        if load(hot) <= 1.02 * sum(loads) / num_nodes:
            break
        give(hot, cold, -1)
        give(cold, hot, 0)

    gpus = []
    for mine in nodes:
        here = [[] for _ in range(gpus_per_node)]
        for e in sorted(mine, key=lambda e: -share[e]):
            free = [gpu for gpu in here if len(gpu) < places_per_gpu]
            min(free, key=lambda gpu: sum(share[one] for one in gpu)).append(e)
        gpus += here
    return gpus
    ### END SOLUTION


# %% check="week12.placement" points=3 optional=true
tiny = {"experts": 8, "groups": 4, "nodes": 2, "gpus": 2, "places": 4, "skew": 0.0, "seed": 0}
zipf = {"experts": 256, "groups": 8, "nodes": 4, "gpus": 8, "places": 9, "skew": 1.0, "seed": 40}
balance, home = {"part": "balance"}, {"part": "home"}
more = zipf | {"places": 10, "seed": 41}
check("week12.placement", place, cases=[tiny | balance, zipf | balance, zipf | home, more | home])

# %% [markdown]
# ### EP and TP on eight ranks
#
# A smaller version of the interview's layer: h = 32, experts of width 16, 128 tokens per rank. Your formula counts an
# even router; this one is random.


# %%
from mine.expert_parallel import run_experts


def by_tp(x, experts, weights, up, down):
    """Runs all 64 experts, up (64, h, f/8), on all ranks' tokens; each rank keeps the sums for its own tokens."""
    size, whole = dist.get_world_size(), []
    for one in (x, experts, weights):
        whole.append(one.new_empty(size * len(one), one.shape[1]))
        dist.all_gather_single(whole[-1], one)
    tokens = torch.arange(len(whole[0])).repeat_interleave(experts.shape[1])
    rows = run_experts(whole[0][tokens], whole[1].flatten(), up, down) * whole[2].flatten()[:, None]
    parts, mine = torch.zeros_like(whole[0]).index_add(0, tokens, rows), torch.empty_like(x)
    dist.reduce_scatter_single(mine, parts)
    return mine


# %%
from mine.moe import choose  # your router of week 11


def both_ways(k):
    rank, torch_seed = dist.get_rank(), torch.Generator().manual_seed(0)
    up, down = torch.randn(64, 32, 16, generator=torch_seed), torch.randn(64, 16, 32, generator=torch_seed)
    x, logits = torch.randn(8, 128, 96, generator=torch_seed)[rank].split([32, 64], 1)
    experts, weights = choose(logits, torch.zeros(64), k, lambda one: one.softmax(-1), True)
    given = x.contiguous(), experts, weights
    mine, cut = slice(8 * rank, 8 * rank + 8), slice(2 * rank, 2 * rank + 2)
    with meter.record() as bill, torch.no_grad():
        ep = expert_layer(*given, up[mine], down[mine], group=None)
    stays = 2 * 32 * 4 * (experts // 8 == rank).sum().item()
    leaves = sum(e.payload_bytes for e in bill.events if e.shape[1:] == (32,)) - stays
    with meter.record() as bill, torch.no_grad():
        tp = by_tp(*given, up[:, :, cut], down[:, cut])
    assert torch.allclose(ep, tp, atol=1e-3)
    return leaves, sum(e.sent_bytes for e in bill.events if e.kind == "reduce_scatter" or e.shape[1:] == (32,))


for k in (2, 6, 8):
    found = torch.tensor(run(both_ways, k, ranks=8)).mean(0).tolist()
    due = costs.layer_exchange_bytes(128, k, 32, 8, dispatch_bytes=4, combine_bytes=4)
    due = due, costs.expert_tensor_bytes(128, 32, 8, 4)
    print(f"k = {k}: EP sends {found[0]:.0f} bytes per rank (even: {due[0]:.0f}), TP {found[1]:.0f} ({due[1]:.0f})")
