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
# # Week 14 · Long context (长上下文): a sequence that no rank can hold
#
# *Core: about 160 minutes; optional: about 40 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** attention over keys sent around a ring, forward and backward, with the same result as one process;
# - [ ] **balance** a causal mask over ranks, while keeping labels, positions and the loss right;
# - [ ] **choose** between ring, gathered keys and Ulysses based on bytes, heads and memory.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>Why does sequence parallelism (week 6) not help when one sequence is too long?</summary>
#
# It splits norms and dropout, but before attention it gathers all positions on every tensor-parallel rank.
# </details>
#
# <details><summary>What does a query of a causal model (因果模型) see?</summary>
#
# The keys at its own position and before. The last of s queries sees s keys; the first sees one.
# </details>
#
# <details><summary>softmax of [1, 2]: which two numbers must you know to write down the first weight?</summary>
#
# The logit, and the sum of all exponentials: e¹ / (e¹ + e²). Its logarithm is the **log-sum-exp**, lse.
# </details>

# %%
import torch
import torch.distributed as dist
from shardlab import alive, context_parallel, costs, figures, meter, run
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# Llama 3's 405B model reads a book of 262,144 tokens. Attention compares each token with every other token. **How
# many gigabytes do the scores of one head in one layer take in bf16? The model has 126 layers with 128 heads each,
# 16,128 heads in total.** Guess, then run the cell.

# %%
book = costs.find_model("llama3-405b", sequence=262_144)
s, kv_width = book.sequence, book.hidden // book.heads * book.kv_heads
layout = costs.Layout(tp=8, sequence_parallel=True)
bars = {
    "scores of one head": 2 * s * s,
    "keys and values of a layer, all heads": 2 * 2 * s * kv_width,
    "what one layer keeps, tp 8, no scores": costs.layer_activation_bytes_exactly(book, layout, dropout=False),
}
figure, ax = figures.new_axes(7, 1.9)
title = "262,144 tokens: the scores of one head do not fit"
figures.show(figure, figures.draw_bars(ax, bars, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# The scores must never be stored, and flash attention avoids that. But the rest also grows with s, and there are 126
# layers. So **context parallelism** (上下文并行) splits the *sequence* over c ranks inside attention as well. Keys
# and values are the smallest bar, so those are what ranks send.
#
# ## 2 · The picture first
#
# Each row is a chunk of queries, each column is a chunk of keys, and the mask hides the gray blocks. The color is the
# rank that has the queries. The number is the **ring step**: how many hops around the ring (环) the keys have made
# when they arrive.

# %%
for layout in ("contiguous", "zig-zag"):
    figure, ax = figures.new_axes(6.2, 3)
    figures.show(figure, figures.draw_causal_square(ax, figures.chunk_owners(layout, 4)))

# %% [markdown]
# **Step through it.** Queries stay, keys and values travel. On the right, the orange blocks are computed in this step.

# %%
frames = figures.ring_frames(figures.chunk_owners("zig-zag", 4))
figures.animate("Keys and values travel around the ring", frames)

# %% [markdown]
# With one piece per rank, the last rank computes seven times as much as the first, and all ranks wait for it. In
# general the maximum work of a rank, divided by the mean, is 2 − 1/c. **Zig-zag** (之字形) cuts the sequence into 2c
# chunks and gives rank r the r-th from the front and the r-th from the end, which is exactly even. With **striped**
# (条带), rank r has positions r, r + c, r + 2c, …


# %% tags=["interactive"]
@figures.interact(c=(1, 8), layout=["contiguous", "zig-zag", "striped"])
def square(c=4, layout="striped"):
    figure, ax = figures.new_axes(6.2, 3)
    figures.show(figure, figures.draw_causal_square(ax, figures.chunk_owners(layout, c)))


# %% [markdown]
# **Draw your own.** Below, eight chunks are assigned to four ranks in turn. Change `mine`, with two chunks per rank,
# until the ratio of maximum to mean is 1. Then the second figure packs two documents (文档) of five and three chunks
# into one sequence; neither sees the other. **Is zig-zag still even?** Find a better assignment.

# %%
mine = [0, 1, 2, 3, 0, 1, 2, 3]
for owners, documents in ((mine, [8]), (figures.chunk_owners("zig-zag", 4), [5, 3])):
    figure, ax = figures.new_axes(6.2, 3)
    figures.show(figure, figures.draw_causal_square(ax, owners, documents=documents))

# %% [markdown]
# <details><summary>How many answers are there?</summary>
#
# With one document there is one answer, up to the names of the ranks: chunk i must be paired with chunk 7 − i, which
# is zig-zag. With two documents, the chunk with the most work has 4.5 blocks, and its partner has at least half a
# block, 5 in total. So 1.18 is the best ratio, and `[1, 3, 2, 1, 0, 0, 2, 3]` reaches it. Zig-zag has 1.88.
# </details>
#
# ## 3 · What each rank sends
#
# **Notation.** There are c ranks and b sequences of s tokens; h is the width of all queries and h_kv the width of all
# keys. With **grouped queries** (分组查询, GQA), several heads share keys, and h_kv is smaller. Numbers are bf16, 2
# bytes. `Q[B, A, S_c, D]`, with A heads of width D, has its positions split over c.
#
# - **Ring** (arXiv 2310.01889): each rank passes keys and values to the next, c − 1 times.
# - **All-gather** of keys and values (Llama 3, arXiv 2407.21783, section 3.3.2): the same bytes, all at once. Then
#   each rank has all keys, so any mask is easy.
# - **Ulysses** (arXiv 2309.14509): an all-to-all of q, k and v. Before it, a rank has all heads at some positions;
#   after it, some heads at all positions. One more all-to-all brings the output back. (c − 1)/c of each tensor leaves
#   the rank.
#
# ### Warm-up: the bill
#
# **By hand.** c = 2, one sequence of s = 4, two heads of width 2, one key head. A rank has 2 positions. Its keys are 2
# · 2 numbers, 8 bytes, and so are its values: in a ring it sends 16 bytes once. For Ulysses it has 16 bytes of q, 8 of
# k, 8 of v, and later 16 of output. That is 48 bytes, half of which leave: 24.
#
# In general, relative to a rank's bytes of k, a ring sends 2 (c − 1) times as much and Ulysses sends (c − 1)/c · (2
# h/h_kv + 2) times as much. So Ulysses sends less if c > 1 + h/h_kv: here from 4 on. This counts each key head once;
# section 7 copies some.
#
# **`kv_bill(c, b, s, heads, kv_heads, width)`** returns three numbers for one layer's forward: the bytes that a rank
# sends in a ring; the bytes with Ulysses, counting each key head once; and the smallest c ≥ 2 for which Ulysses sends
# less. *About 4 lines.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other sizes and layouts, one to
# > four ranks, shared keys, float32 and bfloat16, and groups that are only part of the world.


# %% exercise="week14.bill"
def kv_bill(c, b, s, heads, kv_heads, width):
    """Returns [bytes of a ring, bytes of Ulysses, smallest c for which Ulysses sends less]; width: of one head."""
    ### BEGIN SOLUTION
    block = 2 * 2 * b * (s / c) * width
    ring, ulysses = (c - 1) * block * kv_heads, (c - 1) / c * block * (heads + kv_heads)
    return [ring, ulysses, (heads + kv_heads) // kv_heads + 1]
    ### END SOLUTION


# %% check="week14.bill" points=1
llama = {"c": 16, "b": 1, "s": 131_072, "heads": 128, "kv_heads": 8, "width": 128}
check("week14.bill", kv_bill, cases=[llama, {"c": 4, "b": 2, "s": 8192, "heads": 32, "kv_heads": 32, "width": 128}])

# %% [markdown]
# Your first case is Llama 3 with its longest sequence: 503 MB for the ring, 535 MB for Ulysses. With keys for every
# head, Ulysses sends less from c = 3 on; with one key head for 16 heads, from 18. **Predict, then measure** the
# package's three methods on four ranks, with b = 1, s = 64, heads of width 8. In which of the two rows does Ulysses
# send less?


# %%
def sent_by(method, heads, kv_heads):
    q, k = torch.randn(1, heads, 16, 8).bfloat16(), torch.randn(1, kv_heads, 16, 8).bfloat16()
    layout = context_parallel.zigzag(64, 4)
    with meter.record() as bill:
        context_parallel.attend(q, k, k, layout=layout, group=dist.group.WORLD, method=method, agreed=True)
    return bill.sent_bytes


for heads, kv_heads in ((8, 8), (16, 4)):
    due = kv_bill(4, 1, 64, heads, kv_heads, 8)
    ways = context_parallel.Ring(), context_parallel.Gathered(), context_parallel.Ulysses()
    ring, gathered, ulysses = (run(sent_by, way, heads, kv_heads, ranks=4)[0] for way in ways)
    print(f"{heads} heads, {kv_heads} of keys: formulas {due[0]:.0f} and {due[1]:.0f}; measured ", end="")
    print(f"ring {ring:.0f}, ", end="")
    print(f"gathered {gathered:.0f}, Ulysses {ulysses:.0f}")

# %% [markdown]
# ## 4 · A batch in two pieces per rank
#
# The tokens of a rank are no longer adjacent. Three things break silently: labels, positions, and the mean.
#
# **By hand.** Tokens `[10 11 12 13 14 15 16 17]` on two ranks make four chunks of two. Rank 0 has chunks 0 and 3,
# positions `[0 1 6 7]`, tokens `[10 11 16 17]`. The label (标签) of a position is the next token of the *sequence*:
# `[11 12 17 –]`. If you shift after the split, it is `[11 16 17 –]`, wrong only at the seam. A real case:
# [bionemo-recipes#1449](https://github.com/NVIDIA-BioNeMo/bionemo-recipes/pull/1449) has `[1, 6, 7, -100]` instead of
# `[1, 2, 7, -100]`.
#
# **The mean.** Now suppose that three of rank 0's labels count and one of rank 1's, with losses that sum to 6 and 4.
# The mean is 10/4 = 2.5. The mean of the ranks' means is (2 + 4)/2 = 3, because rank 1's token counts three times as
# much.
#
# **Write three functions.** **`zig_zag`** returns the positions of a rank, int64 (`size` is c). If the length cannot be
# cut into 2c equal chunks, it raises a ValueError that names the length and 2c, before anything is sent. **`my_part`**
# returns the inputs, labels and positions of this rank; `targets` is not shifted yet: `targets[:, i]` is token i, or
# −100 if that token does not count. The last position has no label. **`loss_share`** returns this rank's share, such
# that the shares of all ranks sum to the mean over all labels that count (at least one does). *About 12 lines in all.*
# Do not change `batch_step`.


# %% exercise="week14.batch"
def zig_zag(length, rank, size):
    """Returns the positions of chunks `rank` and 2·size − 1 − rank, of 2·size; ValueError if they are not equal."""
    ### BEGIN SOLUTION
    if length % (2 * size):
        raise ValueError(f"a sequence of {length} cannot be cut into {2 * size} chunks: use a multiple")
    chunks = torch.arange(length).chunk(2 * size)
    return torch.cat([chunks[rank], chunks[2 * size - 1 - rank]])
    ### END SOLUTION


def my_part(tokens, targets, *, group):
    """Returns this rank's inputs (b, s/c), labels (b, s/c) and positions (s/c,) for (b, s) tokens and targets."""
    ### BEGIN SOLUTION
    positions = zig_zag(tokens.shape[1], dist.get_rank(group), dist.get_world_size(group))
    labels = torch.full_like(targets, -100)
    labels[:, :-1] = targets[:, 1:]
    return tokens[:, positions], labels[:, positions], positions
    ### END SOLUTION


def loss_share(losses, labels, *, group):
    """Returns this rank's share of the mean over all ranks' labels that are not -100; losses at -100 are 0."""
    ### BEGIN SOLUTION
    count = (labels != -100).sum()
    dist.all_reduce(count, group=group)
    return losses.sum() / count
    ### END SOLUTION


def batch_step(tokens, targets, table, places, *, group):
    """Given. A model of token and position tables; returns positions, labels, loss, gradients of both tables."""
    inputs, labels, positions = my_part(tokens, targets, group=group)
    table, places = table.clone().requires_grad_(), places.clone().requires_grad_()
    logits = table[inputs] + places[positions]
    losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
    share = loss_share(losses, labels.flatten(), group=group)
    sums = [share.detach().clone(), *torch.autograd.grad(share, (table, places))]
    for one in sums:
        dist.all_reduce(one, group=group)
    return positions, labels, *sums


# %% check="week14.batch" points=3
silent = {"ranks": 4, "batch": 2, "rows": 16, "subgroup": [1, 2, 3], "silent": 1}
uneven = {"ranks": 2, "batch": 1, "rows": 4, "more": 2}
two, one = ({"ranks": ranks, "batch": 1, "rows": 4} for ranks in (2, 1))
check("week14.batch", batch_step, cases=[two, silent, uneven, one])

# %% [markdown]
# **Watch a bug.** Only one label counts, on one rank. Each rank divides by its own number of labels (1, or 0 replaced
# by 1), and DDP averages over c. By what factor is the gradient too small?
# [Megatron-LM#7513](https://github.com/NVIDIA/Megatron-LM/pull/7513) proposes a fix for this, finding 9 of
# [#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452).


# %%
def lone_label(share):
    targets = torch.full((1, 16), -100)
    targets[0, 3] = 1
    _, labels, _ = my_part(torch.zeros_like(targets), targets, group=None)
    logits = torch.zeros(labels.numel(), 4).requires_grad_()
    losses = cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="none")
    (gradient,) = torch.autograd.grad(share(losses, labels, group=None), logits)
    length = gradient.norm()
    dist.all_reduce(length)
    return length.item()


def mean_of_means(losses, labels, *, group):
    return losses.sum() / (labels != -100).sum().clamp(min=1) / dist.get_world_size(group)


for c in (2, 4):
    right, found = (run(lone_label, share, ranks=c)[0] for share in (loss_share, mean_of_means))
    print(f"{c} ranks: gradient {found / right:.3f} of what it should be")

# %% [markdown]
# ## 5 · Three numbers that replace a row
#
# **Online softmax** (在线 softmax) **by hand.** One query has scores `[0, ln 3 | ln 12]` and values `[8, 0 | 6]`; the
# bar is the border between two ranks.
#
# | | output o | lse | weight in the total |
# |---|---|---|---|
# | first block | (1·8 + 3·0)/4 = 2 | ln 4 | 4/16 |
# | second block | 6 | ln 12 | 12/16 |
# | both | (4·2 + 12·6)/16 = **5** | **ln 16** | |
#
# Check: (1·8 + 3·0 + 12·6)/16 = 5. A block's output is a mean, and the exponential of its lse is the weight of that
# mean. So
#
# > lse = log(e^lse₁ + e^lse₂), o = o₁ · e^(lse₁ − lse) + o₂ · e^(lse₂ − lse)
#
# in any order, block by block (arXiv 1805.02867; 2205.14135, section 3.1). Large scores overflow, so use
# `torch.logaddexp` for the first formula, and subtract lse *before* exp in the second.
#
# The computation for one block is given, and so is passing tensors around the ring. A row whose keys are all hidden
# has lse −∞ and o = 0.


# %%
def block_attention(q, k, v, q_positions, k_positions):
    """Returns o (b, heads, queries, width) and lse (b, heads, queries), fp32, for queries and one block of keys."""
    shared, scale = q.shape[1] // k.shape[1], q.shape[-1] ** 0.5
    keys, values = (one.float().repeat_interleave(shared, 1) if shared > 1 else one.float() for one in (k, v))
    scores = (q.float() @ keys.mT / scale).masked_fill(k_positions > q_positions[:, None], -torch.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None]).exp().nan_to_num(0.0) @ values, lse


def pass_on(tensors, *, group):
    """Starts sending to the right neighbor; returns the tensors coming from the left and the requests to wait for."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    coming = [torch.empty_like(one) for one in tensors]
    sends = [dist.isend(one, group=group, group_dst=(rank + 1) % size) for one in tensors]
    return coming, sends + [dist.irecv(one, group=group, group_src=(rank - 1) % size) for one in coming]


# %% [markdown]
# **A ring by hand**, three ranks. In step 0 each rank has its own block: rank 1 starts sending it to rank 2, computes
# with it, and waits for rank 0's. In step 1 it sends rank 0's block on and computes with it. In step 2 it has rank
# 2's, sends nothing, and is done. In each step it merges (o, lse) with the result so far.
#
# **`merge`** combines two partial results: o (…, width), and lse (…) without the last dimension. **`ring_attention(q,
# k, v, positions, *, group)`** returns this rank's output and lse in fp32, over all ranks' keys that its queries may
# see. `positions` are the positions of this rank's tokens, in any layout. The mask needs the positions *of the keys
# that are currently here*, so send them along with keys and values. Start passing a block on **before** you compute
# with it. In addition to your inputs, hold at most two blocks. Send c − 1 blocks, without a cast, using only sends and
# receives. *About 12 lines.*


# %% exercise="week14.ring"
def merge(o, lse, o_block, lse_block):
    """Combines two partial results into one."""
    ### BEGIN SOLUTION
    whole = torch.logaddexp(lse, lse_block)
    return o * (lse - whole).exp()[..., None] + o_block * (lse_block - whole).exp()[..., None], whole
    ### END SOLUTION


def ring_attention(q, k, v, positions, *, group):
    """Returns causal o and lse, fp32, of q (b, heads, s/c, width) over all ranks' k, v (b, kv heads, s/c, width)."""
    ### BEGIN SOLUTION
    here, size, found = [k, v, positions], dist.get_world_size(group), None
    for step in range(size):
        coming, requests = pass_on(here, group=group) if step < size - 1 else (None, [])
        block = block_attention(q, here[0], here[1], positions, here[2])
        found = block if found is None else merge(*found, *block)
        for request in requests:
            request.wait()
        here = coming
    return found
    ### END SOLUTION


# %% check="week14.ring" points=3
tiny = {"ranks": 2, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": "contiguous", "part": "values"}
zigzags = {"ranks": 4, "rows": 4, "heads": 4, "kv_heads": 2, "width": 4, "layout": "zig-zag"}
wide = {"ranks": 6, "rows": 128, "heads": 2, "kv_heads": 2, "width": 8192, "value_width": 16, "layout": "zig-zag"}
some = zigzags | {"subgroup": [0, 2, 3], "dtype": "bfloat16", "part": "values"}
cases = [tiny, tiny | {"scale": 100}, some, tiny | {"ranks": 1}, wide | {"part": "memory"}]
check("week14.ring", ring_attention, cases=cases)

# %% [markdown]
# **Predict, then measure.** When did the message of a block start, and when did its rank start to wait for it? In
# between is the work on the block that was there. If you had waited first, all gaps would be 0.


# %%
def my_piece(s, heads=4, width=32):
    generator, rank, size = torch.Generator().manual_seed(0), dist.get_rank(), dist.get_world_size()
    positions = zig_zag(s, rank, size)
    q, k, v = torch.randn(3, 1, heads, s, width, generator=generator)[:, :, :, positions]
    return q.contiguous(), k.contiguous(), v.contiguous(), positions


def events():
    piece = my_piece(2048)
    with meter.record() as bill:
        ring_attention(*piece, group=None)
    sends = [event for event in bill.events if event.kind == "send"]
    firsts = sends[:: len(sends) // 3]  # one per step: a block may be several messages
    return [(e.begin - bill.events[0].begin, e.waits - bill.events[0].begin) for e in firsts]


for step, (begin, waits) in enumerate(run(events, ranks=4)[1]):
    print(f"step {step}: sending began at {begin * 1e3:5.1f} ms, waited for at {waits * 1e3:5.1f} ms")

# %% [markdown]
# **When are the messages hidden?** With n = s/c tokens, a causal zig-zag step computes 2n²h FLOPs and sends 4n·h_kv
# bytes. With F FLOPs and B bytes per second, these take equally long at n = 2 (h_kv/h) F/B. The machine matters only
# through F/B, the FLOPs it can do in the time it sends one byte:

# %%
h100 = costs.find_accelerator("h100")
for name, bandwidth in (("NVLink", h100.nvlink), ("network", h100.network)):
    for share in (1, 1 / 16):
        least = costs.least_tokens_to_hide(share, flops=h100.bf16_flops, bandwidth=bandwidth)
        print(f"{name:8} h_kv/h = {share:6.4f}: {least:8.0f} tokens per rank")

# %% [markdown]
# ## 6 · Bug hunt: a backward that looks right
#
# The backward (arXiv 2205.14135, appendix B.2) needs no stored scores: you recompute p = e^(score − lse) from the
# row's lse. Then dv = pᵀ·do, and the gradient of the scores is p · (do·vᵀ − D), where D = Σ do·o of the row; dq and
# dk follow from it. **Whose lse and o?** Every sum is over the *whole* row.
#
# **By hand**, take the row of section 5, with do = 1. For the whole row, p = 1/16, 3/16, 12/16 and o = D = 5. So dv =
# 1/16, 3/16, 12/16, and the gradients of the scores are 1/16 · (8 − 5) = 3/16, 3/16 · (0 − 5) = −15/16, 12/16 · (6
# − 5) = 12/16. They sum to 0, as they must. Now use the first block's own o = 2 and lse = ln 4, with do scaled by
# 4/16: p = 1/4, 3/4 and D = 1/4 · 2. Then dv = 1/16, 3/16, which is right. But the gradients of the scores are 1/4 ·
# (8/4 − 2/4) = 6/16 and 3/4 · (0 − 2/4) = −6/16, which is wrong.
#
# The gradients for one block are given; the function uses the o and lse that you pass. dk and dv belong to the rank
# that owns these keys.


# %%
def block_gradients(gradient, q, k, v, o, lse, q_positions, k_positions):
    """Returns what one block of keys adds to dq, and what these queries add to the block's dk and dv; fp32."""
    shared, scale, q = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5, q.float()
    keys, values = (one.float().repeat_interleave(shared, 1) if shared > 1 else one.float() for one in (k, v))
    scores = (q @ keys.mT * scale).masked_fill(k_positions > q_positions[:, None], -torch.inf)
    p = (scores - lse[..., None]).exp().nan_to_num(0.0)
    of_scores = p * (gradient @ values.mT - (gradient * o).sum(-1, keepdim=True)) * scale
    of_keys = (one.unflatten(1, (-1, shared)).sum(2) for one in (of_scores.mT @ q, p.mT @ gradient))
    return of_scores @ keys, *of_keys


def backward_of(share, gradient, q, k, v, o, lse, positions, *, group):
    """Sends keys, values and their gradients around; `share` computes a step from the saved k, v and from `here`."""
    here, size, dq = [k, v, positions], dist.get_world_size(group), 0
    sums = [torch.zeros(k.shape), torch.zeros(v.shape)]
    for _ in range(size):
        block = share(gradient, q, k, v, o, lse, positions, here)
        dq, sums = dq + block[0], [sums[0] + block[1], sums[1] + block[2]]
        coming, requests = pass_on([*here, *sums], group=group) if size > 1 else ([*here, *sums], [])
        for request in requests:
            request.wait()
        here, sums = coming[:3], coming[3:]
    return dq, *sums


# %% [markdown]
# Two public libraries each made a mistake in the function called `share` here. Forward and loss were right, and
# nothing was NaN. **Before you run the cell: which of dq, dk and dv will be wrong?**
#
# - `saved`: the gradients come from an operator that reads k and v from `ctx.saved_tensors`
#   ([diffusers#14265](https://github.com/huggingface/diffusers/issues/14265));
# - `own_sums`: it recomputes o and lse of the block, and scales the gradient by e^(lse_block − lse)
#   ([tt-metal#53205](https://github.com/tenstorrent/tt-metal/issues/53205); with 8 keys in 2 blocks dq was 9.6% and
#   dk 14.2% off).


# %%
def saved(gradient, q, k, v, o, lse, positions, here):
    return block_gradients(gradient, q, k, v, o, lse, positions, here[2])


def own_sums(gradient, q, k, v, o, lse, positions, here):
    o_block, lse_block = block_attention(q, here[0], here[1], positions, here[2])
    scaled = gradient * (lse_block - lse).exp()[..., None]
    return block_gradients(scaled, q, here[0], here[1], o_block, lse_block, positions, here[2])


def errors(backward):
    q, k, v, positions = my_piece(16, 2, 8)
    torch.manual_seed(1)
    whole = [
        one.double().requires_grad_() for one in torch.randn(3, 1, 2, 16, 8, generator=torch.Generator().manual_seed(0))
    ]
    gradient = torch.randn(1, 2, 16, 8)
    right = torch.autograd.grad(scaled_dot_product_attention(*whole, is_causal=True), whole, gradient.double())
    found = backward(gradient[:, :, positions], q, k, v, *ring_attention(q, k, v, positions, group=None), positions)
    return [
        ((a - b[:, :, positions]).norm() / b[:, :, positions].norm()).item() for a, b in zip(found, right, strict=True)
    ]


for share in (saved, own_sums):
    off = run(lambda share=share: errors(lambda *given: backward_of(share, *given, group=None)), ranks=2)[0]
    print(
        f"{share.__name__:9}",
        ", ".join(f"{name} off by {one:.1%}" for name, one in zip(("dq", "dk", "dv"), off, strict=True)),
    )

# %% [markdown]
# With the saved k and v, every block except a rank's own uses the wrong keys: all three gradients are wrong. With the
# block's own sums, p is scaled correctly, so dv is exact, as in the example by hand. But D is that of the block
# alone, so the dependence of the block's weight on the other blocks is lost.
#
# **`ring_backward(gradient, q, k, v, o, lse, positions, *, group)`** returns dq, dk and dv of this rank, fp32.
# `gradient` is fp32, like o and lse, which your forward returned for the whole row. Send keys, values and positions c −
# 1 times, without a cast, and dk and dv in fp32 at most c times: the c-th send brings a block's sums back to their
# owner, so the last step sends only sums, unlike the loop above. *About 12 lines.*


# %% exercise="week14.ring-backward"
def ring_backward(gradient, q, k, v, o, lse, positions, *, group):
    """Returns dq (shaped as q), dk and dv (shaped as k and v) of this rank's tokens, fp32."""
    ### BEGIN SOLUTION
    here, size, dq = [k, v, positions], dist.get_world_size(group), 0
    sums = [torch.zeros(k.shape), torch.zeros(v.shape)]
    for step in range(size):
        block = block_gradients(gradient, q, here[0], here[1], o, lse, positions, here[2])
        dq, sums = dq + block[0], [sums[0] + block[1], sums[1] + block[2]]
        travels = [*here, *sums] if step < size - 1 else sums
        coming, requests = pass_on(travels, group=group) if size > 1 else (travels, [])
        for request in requests:
            request.wait()
        here, sums = coming[:-2], coming[-2:]
    return dq, *sums
    ### END SOLUTION


# %% check="week14.ring-backward" points=3
tiny = {"ranks": 2, "rows": 2, "heads": 1, "kv_heads": 1, "width": 4, "layout": "contiguous"}
some = zigzags | {"subgroup": [1, 2, 3], "dtype": "bfloat16"}
check("week14.ring-backward", ring_backward, cases=[tiny, some, tiny | {"ranks": 1}])

# %%
off = run(lambda: errors(lambda *given: ring_backward(*given, group=None)), ranks=4)[0]
print("yours    ", ", ".join(f"{name} off by {one:.1e}" for name, one in zip(("dq", "dk", "dv"), off, strict=True)))

# %% [markdown]
# ## 7 · Ulysses: exchange positions for heads
#
# **By hand.** Two ranks, two heads, positions 0 and 1. Rank 0 has heads A and B at position 0, `[A0 B0]`; rank 1 has
# `[A1 B1]`. Rank 0 keeps A0, sends B0 and gets A1: `[A0 A1]`, one head at all positions, so attention is local. Each
# rank sends half of its data. The backward is the reverse exchange: the forward only moves numbers, so its adjoint
# moves them back.
#
# `dist.all_to_all_single` has no gradient and gives no warning (week 12). So write the Function.
#
# If there are fewer key heads than ranks, copy each first, as often as needed and no more: 2 key heads A and B on 4
# ranks need two copies each, `A A B B`. Then Ulysses sends more than your bill: in its example by hand, 32 bytes
# instead of 24. **`ulysses_attention`** computes causal attention; rank r has the r-th piece of the sequence, not
# zig-zag. If c does not divide the number of heads, or if the number of key heads neither divides c nor is divided by
# it, raise a ValueError with both numbers, on every rank, before anything is sent. *About 15 lines including the
# Function.*


# %% exercise="week14.ulysses"
def exchanged(x, cut, join, group):
    """Cuts x along dimension `cut`, sends part j to rank j, and joins the received parts along dimension `join`."""
    ### BEGIN SOLUTION
    parts = torch.stack(x.chunk(dist.get_world_size(group), cut))
    came = torch.empty_like(parts)
    dist.all_to_all_single(came, parts, group=group)
    return torch.cat(list(came), join)
    ### END SOLUTION


class Exchange(torch.autograd.Function):
    """`exchanged`, with its adjoint as the backward."""

    @staticmethod
    def forward(ctx, x, cut, join, group):
        ctx.way = cut, join, group
        return exchanged(x, cut, join, group)

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        cut, join, group = ctx.way
        return exchanged(gradient, join, cut, group), None, None, None
        ### END SOLUTION


def ulysses_attention(q, k, v, *, group):
    """Causal attention of q (b, heads, s/c, width) over all positions, with `scaled_dot_product_attention`."""
    ### BEGIN SOLUTION
    size = dist.get_world_size(group)
    if q.shape[1] % size:
        raise ValueError(f"{q.shape[1]} heads cannot be split over {size} ranks: use a divisor")
    if k.shape[1] % size and size % k.shape[1]:
        raise ValueError(f"{k.shape[1]} key heads cannot be split over {size} ranks: use a divisor or a multiple")
    copies = max(1, size // k.shape[1])
    k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
    q, k, v = (Exchange.apply(one, 1, 2, group) for one in (q, k, v))
    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return Exchange.apply(o, 2, 1, group)
    ### END SOLUTION


def ulysses_step(q, k, v, gradient, *, group):
    """Given. Returns the output and the gradients of q, k and v."""
    leaves = [one.clone().requires_grad_() for one in (q, k, v)]
    o = ulysses_attention(*leaves, group=group)
    return o.detach(), *torch.autograd.grad(o, leaves, gradient)


# %% check="week14.ulysses" points=3
few = {"ranks": 4, "rows": 3, "heads": 6, "kv_heads": 1, "width": 4, "batch": 2, "subgroup": [1, 2, 3]}
refused = {"ranks": 4, "rows": 2, "width": 4, "refused": True}
cases = [{"ranks": 2, "rows": 2, "heads": 2, "kv_heads": 2, "width": 4}, few]
cases += [refused | {"heads": 6, "kv_heads": 2}, refused | {"heads": 12, "kv_heads": 6}]
cases += [{"ranks": 1, "rows": 2, "heads": 2, "kv_heads": 1, "width": 4}]
check("week14.ulysses", ulysses_step, cases=cases)

# %% [markdown]
# Ulysses needs no balancing (each rank has whole triangles) and no special attention backward. But c cannot exceed
# the number of heads, and tensor parallelism has already split those. Beyond that limit, use two levels: Ulysses
# inside a node and a ring between nodes; c is the product of their sizes.

# %% [markdown]
# ## 8 · Interview: 256K context on 4,096 GPUs
#
# Llama 3's 405B model has h = 16,384, 128 heads of width 128, 8 key heads, and an MLP of width 53,248 with three
# matrices. Use s = 262,144, b = 1, H100s with 989.5 TFLOP/s and 50 GB/s of network each, tp = 8 (it splits the query
# heads and the key heads), pp = 16, and the rest as cp.
#
# A matrix of a × b numbers costs 2ab FLOPs per token. A layer has four in attention (q and output h × h, k and v h ×
# h_kv) and three in the MLP. Attention's core, the scores and weighted sums, costs 4sh per token without a mask, and
# half of that with a causal mask: 2sh. By hand, with h = 2, h_kv = 1, an MLP of width 4 and s = 3, the matrices cost
# 2 · (2 · 4 + 2 · 2 + 3 · 8) = 72 and the core costs 12, a fraction of 12/84.
#
# **`on_4096_gpus()`** returns five numbers: the tokens per rank; the bytes of keys and values that a rank sends per
# layer in a forward ring; the largest cp for which Ulysses can split the heads of a tensor-parallel rank; the smallest
# number of tokens per rank, rounded or not, that hides the messages over the network in a step of the ring (causal,
# zig-zag); and the fraction of a layer's forward FLOPs that causal attention's core takes. *A few lines.*


# %% exercise="week14.4096-gpus"
def on_4096_gpus():
    """Returns [tokens, bytes, ranks, tokens, fraction]."""
    ### BEGIN SOLUTION
    s, h, kv_width, tp, cp = 262_144, 16_384, 8 * 128, 8, 4096 // 8 // 16
    ring = kv_bill(cp, 1, s, 128 // tp, 8 // tp, 128)[0]
    matrices, core = 2 * (2 * h * h + 2 * h * kv_width + 3 * h * 53_248), 2 * s * h
    return [s / cp, ring, 128 // tp, 2 * kv_width / h * 989.5e12 / 50e9, core / (core + matrices)]
    ### END SOLUTION


# %% check="week14.4096-gpus" points=1
check("week14.4096-gpus", on_4096_gpus)

# %% [markdown]
# The cell runs the course's planner (week 10) for 64 such sequences per step, without context parallelism and with any
# cp up to 32. It chooses its own tp and pp. What must it do to fit without context parallelism? ([How far off it can
# be](../../docs/cost-model.md).)

# %%
for cp in (1, 32):
    search = costs.Search(max_tp=8, max_cp=cp, microbatches=(1,), virtual=(1,), schedules=("1f1b",))
    (best,) = costs.plan(book, h100, 4096, 64, search=search, best=1)
    ways = f"{best.memory.total / 1e9:.0f} GB, {best.step.total:.0f} s per step"
    print(f"cp up to {cp:2}: {figures.layout_text(best.layout)}: {ways}")

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: why you use cp, and why not more tp; ring, gather
# or Ulysses, based on your numbers; which work must be balanced, and how; the effect on positions, labels and the
# mean; and your first measurement. What changes if the 262,144 tokens are a hundred documents?

# %% [markdown] manual="week14.interview" points=2
# ### BEGIN SOLUTION
# With tp 8 and pp 16, a sequence of 262,144 tokens keeps too much on a rank: the planner recomputes everything and
# takes nine times as long. tp beyond a node would send activations over the network. cp 32 leaves 8,192 tokens per
# rank. Ulysses is limited to 16, the number of heads of a tensor-parallel rank, and must copy the one key head for
# each. So I would use a ring or gathered keys: 130 MB per layer and forward. 8,192 tokens are more than 2,474, so the
# causal zig-zag work hides the ring; the core is 57% of a layer's forward. Keys gathered for one layer are small too,
# and any mask is simple, which is why Llama 3 gathers.
#
# I would use zig-zag with 64 chunks, make positions and labels before the split, and divide the loss by the count over
# all cp and dp ranks. First I would measure the spread of the ranks' attention times and the exposed wait of a step.
#
# With a hundred documents, queries see little of other chunks, zig-zag is no longer even, and most keys are sent for
# nothing. I would balance by the number of visible query-key pairs, or use a smaller cp for short documents.
#
# Full marks: the limit on heads after tp, both comparisons in tokens and bytes, balance, count of labels, documents.
# ### END SOLUTION

# %% [markdown]
# ## 9 · Recap
#
# <details><summary>What must you keep of a block's attention so that you can add another block later?</summary>
#
# Its output and its log-sum-exp, in fp32.
# </details>
#
# <details><summary>Which numbers of the whole row does the backward of one block need?</summary>
#
# lse, for p, and D = Σ do·o. The query's rank has both, so they need no message.
# </details>
#
# <details><summary>When does Ulysses send less than a ring?</summary>
#
# When c > 1 + h/h_kv. With keys for every head, that is c > 2; with shared keys, the number of heads rarely allows
# it.
# </details>
#
# ## 10 · Take away
#
# > **One.** A softmax over parts is a mean of means with known weights. If you keep the weights, the order does not
# > matter.
#
# > **Two.** A split sequence is still one sequence: compute positions, labels, mask and mean from the whole.
#
# > **Three.** Ring, gather and Ulysses give the same result. Choose by heads, bytes, masks and memory.
#
# ## 11 · Going further
#
# - Liu et al., *Ring Attention with Blockwise Transformers*, arXiv 2310.01889. Look for: the arithmetic in section
#   3.2, without a mask; compare it with the 2 in yours.
# - Brandon et al., *Striped Attention*, arXiv 2311.09431. Look for: the figure with each rank's triangles.
# - The Llama team, *The Llama 3 Herd of Models*, arXiv 2407.21783. Look for: section 3.3.2, why keys are gathered.
# - [ring-flash-attention](https://github.com/zhuzilin/ring-flash-attention), `zigzag_ring_flash_attn.py`. Look for:
#   `.to(torch.float32)` does not copy a tensor that is already fp32. Which tensor does the next step then overwrite?
#
# **An experiment, not graded.** Use `costs.Search(max_cp=32, context=("ulysses",))` in the planner's cell: what does
# it choose if the ring is not allowed, and how much does that cost?

# %% [markdown]
# ## Optional · A cap on memory, and real code
#
# ### Challenge: under a cap
#
# A ring splits s, but a block's scores still have (s/c)² numbers per head. **Predict** before you run the cell: what
# happens to a rank's peak memory when s doubles? (`alive` reports the peak bytes held by tensors, including inputs.)


# %%
def peaks(s):
    piece = my_piece(s)
    with alive(piece) as held:
        ring_attention(*piece, group=None)
    return held.peak


for s in (512, 1024, 2048):
    print(f"s = {s:5}: {run(peaks, s, ranks=4)[0] / 2**20:6.1f} MiB on each of 4 ranks")

# %% [markdown]
# At 256K tokens and c = 32, a block of scores has 8,192² numbers, 268 MB in fp32 per head. So work in **tiles**
# (分块): process a few queries at a time, with the current block of keys. By hand, 6 queries in tiles of 4 are
# queries 0–3, then 4–5; merge each tile with its own part of o and lse. Start with o = 0 and lse = −∞, which has
# weight zero.
#
# **`attend_under_cap(q, k, v, positions, cap_bytes, *, group)`** returns only the output, fp32. The target: in
# addition to its inputs, a rank holds at most `cap_bytes`, 16 MiB (16.8 MB), as the operating system measures the
# process. One block of scores is 36 MiB, and its keys and values are 1.5 MiB. The limit on message bytes is the same
# as before. Lengths need not be multiples of your tile. *About 15 lines.*


# %% exercise="week14.memory-cap"
def attend_under_cap(q, k, v, positions, cap_bytes, *, group):
    """Causal attention over all ranks' keys, in tiles of queries; returns o, shaped as q, fp32."""
    ### BEGIN SOLUTION
    here, size, tile = [k, v, positions], dist.get_world_size(group), 64
    o, lse = torch.zeros(q.shape), torch.full(q.shape[:3], -torch.inf)
    for step in range(size):
        coming, requests = pass_on(here, group=group) if step < size - 1 else (None, [])
        for at in range(0, len(positions), tile):
            now = slice(at, at + tile)
            block = block_attention(q[:, :, now], here[0], here[1], positions[now], here[2])
            o[:, :, now], lse[:, :, now] = merge(o[:, :, now], lse[:, :, now], *block)
        for request in requests:
            request.wait()
        here = coming
    return o
    ### END SOLUTION


# %% check="week14.memory-cap" points=3 optional=true
tiny = {"ranks": 2, "rows": 6, "heads": 1, "kv_heads": 1, "width": 4, "layout": "zig-zag", "part": "values"}
stripes = {"ranks": 4, "rows": 150, "heads": 4, "kv_heads": 2, "width": 4, "layout": "striped", "part": "values"}
long = {"ranks": 4, "rows": 1536, "heads": 4, "kv_heads": 4, "width": 32, "layout": "zig-zag", "part": "memory"}
check("week14.memory-cap", attend_under_cap, cases=[tiny, stripes | {"subgroup": [0, 2, 3]}, long])


# %%
def tiled_peaks(s):
    piece = my_piece(s)
    with alive(piece) as held:
        attend_under_cap(*piece, 2**24, group=None)
    return held.peak


for s in (512, 1024, 2048):
    print(f"s = {s:5}: {run(tiled_peaks, s, ranks=4)[0] / 2**20:6.1f} MiB on each of 4 ranks")

# %% [markdown]
# Once a block no longer fits into one tile, doubling s at most doubles the peak: compare the last rows of the two
# cells. That is what 256K tokens require.
#
# ### Read real code
#
# Open `torch/distributed/tensor/experimental/_context_parallel/_attention.py` in your installed PyTorch.
#
# 1. `"default"`: which member of `_RotateMethod` is the default? A name.
# 2. `"gradients_sent"`: with four ranks, how often does `_templated_ring_attention_backward` send dk and dv? A
#    number.
# 3. `"order"`: in which order does a step of `_templated_ring_attention` call `step`, `op`, `exchange_buffers` and
#    `next_buffer`? A list.
#
# <details><summary>And in `labs/shardlab/context_parallel/ring.py`: how often are dk and dv sent there, and why is it
# enough?</summary>
#
# c − 1 times. The first rank that a block visits starts its sum, and the owner adds its own share when it arrives.
# </details>

# %% exercise="week14.reading"
reading_answers = {"default": None, "gradients_sent": None, "order": None}
### BEGIN SOLUTION
reading_answers["default"] = "ALL_GATHER"
reading_answers["gradients_sent"] = 4
reading_answers["order"] = ["next_buffer", "exchange_buffers", "op", "step"]
### END SOLUTION

# %% check="week14.reading" points=1 optional=true
check("week14.reading", reading_answers)
