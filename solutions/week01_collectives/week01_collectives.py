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
# # Week 1 · Collectives (集合通信): how N ranks add up one gradient
#
# *Core: about 140 minutes; optional: about 50 · 2 to 4 ranks, once 6 · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a ring all-reduce from send and receive alone (optional: a tree);
# - [ ] **predict** the bytes and seconds of an all-reduce for any number of ranks, and confirm the prediction;
# - [ ] **read** a hang report and find the line to change.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What is a rank (进程序号)?</summary>
#
# One process of the job, and its number. Four ranks are four Python processes with separate memories: a rank knows
# about another only what it was sent.
# </details>
#
# <details><summary>Who calls a collective?</summary>
#
# Every rank of the group (进程组). A collective is one function that all of them call, each with its own tensor.
# </details>
#
# <details><summary>Why must every rank call collectives in the same order?</summary>
#
# A call is not labeled. The third collective of rank 0 is matched with the third collective of rank 1, whatever they
# are.
# </details>

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import collectives, costs, figures, meter

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# Eight GPUs train a model of 7 billion parameters, each on its own part of the batch. Before the optimizer can step,
# every GPU needs the **sum** of all eight gradients (梯度). In bf16 one gradient is 14 GB.
#
# The obvious way: every rank sends its gradient to rank 0, which adds them up and sends the sum back. Guess how long
# that takes on links of 50 GB/s, then run.

# %%
num_bytes, bandwidth = 7e9 * 2, 50e9
naive = costs.traffic.naive_all_reduce_bytes(8, num_bytes)
ring = costs.traffic.ring_all_reduce_bytes(8, num_bytes)
print(f"one gradient: {num_bytes / 1e9:.0f} GB")
print(f"through rank 0: {naive.received / 1e9:.0f} GB in, {naive.sent / 1e9:.0f} GB out,", end=" ")
print(f"{sum(naive) / bandwidth:.1f} s per step")
print(f"in a ring: {ring / 1e9:.1f} GB out of every rank, {ring / bandwidth:.2f} s per step")

bars = {"rank 0, naive: in, then out": sum(naive), "any rank of a ring: out": ring}
figure, ax = figures.new_axes(7, 1.8)
notes = [f"{num_bytes / bandwidth:.2f} s" for num_bytes in bars.values()]
figures.show(figure, figures.draw_bars(ax, bars, title="One rank does all the work, or all share it", notes=notes))

# %% [markdown]
# Seven ranks wait for one. Their other links are idle, and a ninth GPU makes things worse. This week you build the
# ring (环).
#
# > **What to expect.** These times are bytes over data-sheet bandwidth: expect more, never less. One user's ring
# > reached 80% of NVLink's data sheet.
#
# ### Warm-up: the cost of the naive way
#
# By hand, 3 ranks and a tensor of 8 bytes: rank 0 receives two messages and sends two, 8 bytes each: 4 messages, 32
# bytes.
#
# **`naive_all_reduce_bill(num_ranks, num_bytes)`** returns two numbers: how many messages rank 0 sends and receives,
# and how many bytes they contain in total. *About 1 line.*
#
# > **Fresh cases.** Grading adds cases: other numbers; sizes from 1 (with empty chunks) to 60,000, not always divisible
# > by N; shapes; float32, float64, bfloat16, int64; 1 to 6 ranks; and groups such as ranks 1 and 3 of four.


# %% exercise="week01.naive-bill"
def naive_all_reduce_bill(num_ranks, num_bytes):
    """Count (messages, bytes) at rank 0 when everything goes through it. num_bytes is the size of one tensor."""
    ### BEGIN SOLUTION
    return 2 * (num_ranks - 1), 2 * (num_ranks - 1) * num_bytes
    ### END SOLUTION


# %% check="week01.naive-bill" points=1
cases = [{"num_ranks": 8, "num_bytes": 14e9}, {"num_ranks": 3, "num_bytes": 1000}]
check("week01.naive-bill", naive_all_reduce_bill, cases=cases)

# %% [markdown]
# ## 2 · The picture first
#
# Two ranks hold four numbers each, split into two chunks (分块):
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | at the start | `[ 1  2 │ 3  4 ]` | `[ 10 20 │ 30 40 ]` |
# | 1: send the other rank's half, add the half you receive | `[ 11 22 │ · · ]` | `[ · · │ 33 44 ]` |
# | 2: send the half you finished | `[ 11 22 │ 33 44 ]` | `[ 11 22 │ 33 44 ]` |
#
# With four ranks there are four chunks and more steps, but the same two phases: chunks accumulate their sum, then
# finished chunks go around the ring.

# %%
for step in range(3):
    figure, ax = figures.new_axes(4.5, 2)
    numbers = [[1, 2, 3, 4], [10, 20, 30, 40]]
    figures.show(figure, figures.draw_ring_step(ax, 2, step, numbers=numbers))

# %% tags=["interactive"]
figures.ring_stepper(num_ranks=4)

# %% [markdown]
# ## 3 · Notation for the whole course
#
# - **N** ranks; **S** bytes in the whole tensor.
# - **α**: latency (延迟), the seconds that every message costs, however short it is; **β**: seconds per byte, the
#   inverse of bandwidth (带宽).
# - **`A[I_X]`**: axis I of A is split over the ranks of mesh axis X. **`A[I]`**: every rank holds all of A.
#   **`A[I]{U_X}`** (U: unreduced): every rank holds a partial sum; A is the *sum* over X, not yet computed.
#
# Eight collectives by name, seen from ranks 0 and 1 (`·` nothing, `│` between the chunks):
#
# | collective | before | after | in notation |
# |---|---|---|---|
# | **broadcast** 广播 | `a` ; `·` | `a` ; `a` | |
# | **scatter** 散发, mirror image **gather** 收集 | `a│b` ; `·` | `a` ; `b` | |
# | **reduce** 归约 | `a` ; `b` | `a+b` ; `·` | |
# | **all-gather** 全收集 | `a` ; `b` | `a│b` ; `a│b` | `A[I_X]` → `A[I]` |
# | **reduce-scatter** 归约散发 | `a│b` ; `c│d` | `a+c` ; `b+d` | `A[I]{U_X}` → `A[I_X]` |
# | **all-reduce** 全归约 | `a` ; `b` | `a+b` ; `a+b` | `A[I]{U_X}` → `A[I]` |
# | **all-to-all** 全交换 | `a│b` ; `c│d` | `a│c` ; `b│d` | `A[I_X, J]` → `A[I, J_X]` |
#
# All of them are built from *point-to-point* (点对点) messages: one rank sends, one receives. You start there.

# %% [markdown]
# ## 4 · Talking in pairs
#
# Two ranks swap 4 KB. Both send first, then receive. **What happens? Commit to an answer, then run.**


# %%
def both_send_first(tensor):
    partner = dist.get_rank() ^ 1
    received = torch.empty_like(tensor)
    dist.send(tensor, group_dst=partner)
    dist.recv(received, group_src=partner)
    return received


try:
    shardlab.run(both_send_first, torch.ones(1024), ranks=2, timeout=5)
except shardlab.RanksFailed as report:
    print(report)

# %% [markdown]
# It hangs: a deadlock (死锁). Here a `send` returns only when the other side receives, and neither side does. A
# library may copy short messages into a buffer and return early; the same lines then work until a message no longer
# fits. Never rely on it.
#
# ### Hang hunt: `exchange`
#
# Even and odd ranks are partners: 0 with 1, 2 with 3; `rank ^ 1` is the partner. **`exchange(tensor, *, group)`**
# returns the partner's tensor, which has the same shape and dtype, and leaves `tensor` unchanged. Use only send and
# receive, one message per rank. Ranks are ranks *in the group*: call `dist.get_rank(group)` and
# `dist.get_world_size(group)`, and pass `group=group` with `group_dst=` or `group_src=`. Wait for every `isend`: a
# message that nobody waits for may never be sent. *About 6 lines.*
#
# <details><summary>Hint</summary>
#
# Start both calls before you wait: `work = dist.isend(...)` returns at once, `work.wait()` waits.
# </details>


# %% exercise="week01.exchange"
def exchange(tensor, *, group):
    """Swap tensors with the partner, rank ^ 1. Returns the partner's tensor (same shape and dtype)."""
    ### BEGIN SOLUTION
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, group_dst=partner, group=group)
    dist.recv(received, group_src=partner, group=group)
    sending.wait()
    return received
    ### END SOLUTION


# %% check="week01.exchange" points=2
cases = [
    {"ranks": 2, "numbers": 4},
    {"ranks": 4, "numbers": 1024},
    {"ranks": 4, "numbers": 6, "subgroup": [1, 3], "dtype": "bfloat16", "matrix": True},
]
check("week01.exchange", exchange, cases=cases)

# %% [markdown]
# > **Two traps.** A receive buffer larger than the message is only partly filled. With another dtype, the bytes are
# > reinterpreted. Neither raises an error. `torch.empty_like` of the right chunk avoids both.
#
# ## 5 · The first half: reduce-scatter
#
# You hold N chunks. In every step you send one chunk to the right (rank r+1, modulo N), receive one from the left
# (r−1), and add your own part to it. You send that one next. After N−1 steps rank r holds the finished chunk r.
#
# **By hand**, 2 ranks and 4 numbers as in section 2. Rank 0 holds `[1 2]` and `[3 4]`, rank 1 `[10 20]` and `[30 40]`.
# Rank 0 keeps chunk 0, so it sends its chunk 1, `[3 4]`; rank 1 sends its chunk 0, `[10 20]`. Rank 0 adds what it
# received to its own chunk 0: `[1 2] + [10 20] = [11 22]`. One step, and rank 0 returns `[11 22]`, rank 1 `[33 44]`.
#
# Which chunk does rank r send first? The one with the longest way to go: chunk r−1 belongs to your left neighbor and
# must go around the whole ring to get there. For N = 3:
#
# | | rank 0 sends | rank 1 sends | rank 2 sends |
# |---|---|---|---|
# | step 0 | chunk 2 | chunk 0 | chunk 1 |
# | step 1 | chunk 1 | chunk 2 | chunk 0 |
# | ends with | chunk 0 | chunk 1 | chunk 2 |
#
# **`ring_reduce_scatter(chunks, *, group)`** takes N flat tensors and returns the finished chunk of this rank as a
# new tensor. Chunks may differ in size and may be empty. Leave the caller's chunks unchanged, and use only send and
# receive, no collective. You send N−1 messages: every chunk except your own, once. *About 8 lines.*
#
# **Predict first:** how many of the S bytes does one rank send?
#
# <details><summary>Hint 1: in words</summary>
#
# Keep one variable, the partial sum you hold. Before the loop it is a copy of your chunk r−1.
# </details>
#
# <details><summary>Hint 2: the index</summary>
#
# In step s you send chunk (r − 1 − s) mod N and receive chunk (r − ___ − s) mod N.
# </details>
#
# <details><summary>Hint 3: the loop, one line missing</summary>
#
# ```python
# for step in range(size - 1):
#     mine = chunks[(rank - 2 - step) % size]
#     incoming = torch.empty_like(mine)
#     sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
#     ...  # receive `incoming` from the left
#     sending.wait()
#     partial = incoming + mine
# ```
# </details>


# %% exercise="week01.ring-reduce-scatter"
def ring_reduce_scatter(chunks, *, group):
    """Sum chunk c over all ranks, for every c, and return the finished chunk of this rank."""
    ### BEGIN SOLUTION
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    partial = chunks[(rank - 1) % size].clone()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        sending = dist.isend(partial, group_dst=(rank + 1) % size, group=group)
        dist.recv(incoming, group_src=(rank - 1) % size, group=group)
        sending.wait()
        partial = incoming + mine
    return partial
    ### END SOLUTION


# %% check="week01.ring-reduce-scatter" points=3
cases = [
    {"ranks": 2, "numbers": 4},
    {"ranks": 3, "numbers": 7},
    {"ranks": 4, "numbers": 302, "subgroup": [1, 2, 3], "dtype": "bfloat16"},
    {"ranks": 1, "numbers": 3},  # nothing to send
]
check("week01.ring-reduce-scatter", ring_reduce_scatter, cases=cases)

# %% [markdown]
# ## 6 · The other half: all-gather
#
# Now every rank holds one finished chunk and needs all of them. The ring is the same, but there is nothing to add: in
# step s, rank r sends chunk r−s to the right and receives chunk r−1−s from the left.
#
# **By hand:** rank 0 holds `[11 22]`, rank 1 `[33 44]`. Each sends its own chunk to the right, here to the other
# rank, and returns the list `[[11 22], [33 44]]`, in the same order on both. With 3 ranks, rank 0 sends chunk 0, then
# forwards chunk 2, which it has just received.
#
# Write two functions in one cell. **`ring_all_gather(chunk, sizes, *, group)`** returns the list of all ranks' chunks
# in rank order; `sizes[r]` is the number of elements of rank r's chunk, possibly 0. No rank sends a chunk twice.
# **`ring_all_reduce(tensor, *, group)`** takes a tensor of any shape and size, flattens it, splits it with
# `tensor_split`, runs both halves, and returns the sum in the same shape and dtype. Each rank sends 2(N−1)/N of S in
# at most 2(N−1) messages. Both functions use only send and receive and leave their inputs unchanged. *About 7 and 4
# lines.*
#
# > **A correction.** Lecture notes say "Reduce = Reduce-Scatter + All-Gather". But after a *reduce* one rank holds the
# > sum, after an all-gather all do: **All-Reduce = Reduce-Scatter + All-Gather**.


# %% exercise="week01.ring-all-reduce"
def ring_all_gather(chunk, sizes, *, group):
    """Collect every rank's flat chunk. Returns a list of tensors, with sizes[r] elements from rank r."""
    ### BEGIN SOLUTION
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    gathered = [chunk.new_empty(num) for num in sizes]
    gathered[rank] = chunk.clone()
    for step in range(size - 1):
        sending = dist.isend(gathered[(rank - step) % size], group_dst=(rank + 1) % size, group=group)
        dist.recv(gathered[(rank - 1 - step) % size], group_src=(rank - 1) % size, group=group)
        sending.wait()
    return gathered
    ### END SOLUTION


def ring_all_reduce(tensor, *, group):
    """Sum a tensor of any shape over all ranks. Returns a new tensor of the same shape and dtype."""
    ### BEGIN SOLUTION
    chunks = tensor.flatten().tensor_split(dist.get_world_size(group))
    finished = ring_reduce_scatter(chunks, group=group)
    gathered = ring_all_gather(finished, [chunk.numel() for chunk in chunks], group=group)
    return torch.cat(gathered).view(tensor.shape)
    ### END SOLUTION


# %% check="week01.ring-all-reduce" points=3
cases = [
    {"ranks": 2, "numbers": 4},
    {"ranks": 3, "numbers": 7},
    {"ranks": 4, "numbers": 302, "subgroup": [1, 2, 3], "dtype": "bfloat16", "matrix": True},
    {"ranks": 1, "numbers": 3},
    {"ranks": 3, "numbers": 4, "dtype": "int64"},
]
some = {"ranks": 3, "numbers": 5, "empty": 1, "dtype": "bfloat16"}  # at most 5 numbers per rank, none on rank 1
cases += [case | {"part": "all-gather"} for case in (some, {"ranks": 1, "numbers": 3})]
check("week01.ring-all-reduce", ring_all_gather, ring_all_reduce, cases=cases)

# %% [markdown]
# ## 7 · The same order on every rank
#
# A training loop averages its loss, for the log, and its gradient. Somebody made rank 0 average the loss first.
# **What will each rank see? Predict, then run.**


# %%
def average_in_any_order(loss, gradient):
    tensors = [loss, gradient] if dist.get_rank() == 0 else [gradient, loss]
    for tensor in tensors:
        dist.all_reduce(tensor)
    return loss / dist.get_world_size(), gradient / dist.get_world_size()


try:
    shardlab.run(average_in_any_order, torch.tensor(2.0), torch.ones(6), ranks=2, timeout=5)
except shardlab.RanksFailed as report:
    print(report)

# %% [markdown]
# One rank received a message of the wrong length and crashed, and its peer lost the connection. With NCCL they may
# hang for minutes. If both tensors had the same shape, you would see no error: loss and gradient would be *added to
# each other*. The report's last line says where the ranks diverge.
#
# ### Hang hunt: `average_loss_and_gradient`
#
# **`average_loss_and_gradient(loss, gradient, *, group)`** returns the means of both over the group, on every rank,
# and leaves its inputs unchanged. You may use the library's all-reduce here. By hand: losses 2 and 4 and gradients
# `[1 1]` and `[3 5]` become 3 and `[2 3]` on both ranks. *About 5 lines.*


# %% exercise="week01.same-order"
def average_loss_and_gradient(loss, gradient, *, group):
    """Average a loss (a scalar tensor) and a gradient (any shape) over the group. Returns (loss, gradient)."""
    ### BEGIN SOLUTION
    means = []
    for tensor in (loss, gradient):
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        means.append(total / dist.get_world_size(group))
    return means[0], means[1]
    ### END SOLUTION


# %% check="week01.same-order" points=1
cases = [{"ranks": 2, "numbers": 6}, {"ranks": 4, "numbers": 5, "subgroup": [0, 2, 3]}]
check("week01.same-order", average_loss_and_gradient, cases=cases)

# %% [markdown]
# ## 8 · What does it cost?
#
# The α-β model counts what must happen sequentially: each message costs α, each byte β.
#
# - **ring**: 2(N−1) steps, S/N bytes each.
# - **tree** (树): sums go up a *binomial* tree (二项树) to rank 0: rank 1 sends to 0 and 3 to 2, then 2 to 0. The
#   total comes back down. That is ⌈log₂ N⌉ levels up and as many down, S bytes each.
#
# **By hand**, 4 ranks, 8 bytes, α = 1 s, β = 1 s per byte: the ring takes 6 · (1 + 2) = 18 s, the tree 4 · (1 + 8) =
# 36 s. With α = 20 s they take 132 s and 112 s.
#
# **`all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm)`** returns the seconds; `algorithm` is `"ring"` or
# `"tree"`. *About 5 lines.*
#
# > **"Data parallelism transmits 2× the parameters every batch"** is the limit for large N. The exact factor is
# > 2(N−1)/N: 1 for two ranks, and always less than 2.


# %% exercise="week01.all-reduce-seconds"
def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    """Seconds of one all-reduce. num_bytes: the whole tensor; alpha: seconds per message; beta: seconds per byte."""
    ### BEGIN SOLUTION
    if algorithm == "ring":
        return 2 * (num_ranks - 1) * (alpha + num_bytes / num_ranks * beta)
    levels = (num_ranks - 1).bit_length()  # the smallest number of doublings that reaches num_ranks
    return 2 * levels * (alpha + num_bytes * beta)
    ### END SOLUTION


# %% check="week01.all-reduce-seconds" points=2
link = {"alpha": 1e-5, "beta": 2e-11}
cases = [{"num_ranks": n, "num_bytes": 14e9, **link, "algorithm": name} for n in (2, 6) for name in ("ring", "tree")]
check("week01.all-reduce-seconds", all_reduce_seconds, cases=cases)

# %% [markdown]
# **Can an all-reduce send less than the ring?** *One* rank can: in a tree of four, ranks 1 and 3 send S each. *All
# ranks together* cannot: each number is sent N−1 times to be added up and N−1 more to reach the other ranks, 2(N−1) ·
# S in total. So the **busiest** rank sends at least 2(N−1)/N · S, and in a ring no rank sends more than that. A
# switch (交换机) that can add, such as SHARP's, lets each rank send S only once.

# %% [markdown]
# ## 9 · Predict, then measure
#
# **Bytes.** The formula predicts bytes; the meter counts what each rank actually passes to `send`. N does not divide
# the sizes below. How far apart will the two columns be?


# %%
def sent_bytes(num_elements):
    with meter.record() as bill:
        collectives.ring_all_reduce(torch.ones(num_elements), group=dist.group.WORLD)
    return bill.sent_bytes


for num_ranks, num_elements in [(2, 1001), (3, 1001), (4, 1001), (4, 1_000_003)]:
    predicted = [4 * costs.traffic.ring_sent_elements(num_elements, num_ranks, rank) for rank in range(num_ranks)]
    counted = shardlab.run(sent_bytes, num_elements, ranks=num_ranks)
    print(f"{num_ranks} ranks: predicted {predicted}, counted {counted}, equal: {predicted == counted}")
figure, ax = figures.new_axes(8, 3.6)
figures.show(figure, figures.draw_traffic(ax, num_ranks, 4 * num_elements))

# %% [markdown]
# Equal to the last byte. (Once your check passes, use your own `ring_all_reduce`, here and below.)
#
# **Seconds.** Four ranks share your cores: expect noise. A repetition takes as long as its slowest rank; we keep the
# fastest of 25 repetitions for each size.

# %%
sizes = [4**k for k in range(6, 13)]  # bytes, from 4 KB to 16 MB
seconds = shardlab.run(
    collectives.seconds_by_size, collectives.ring_all_reduce, sizes, ranks=4, timeout=60, observe=False
)[0]
ring_points = list(zip(sizes, seconds, strict=True))
print("ring:", [f"{1000 * one:.2f} ms" for one in seconds])

# %% [markdown]
# **Fit.** By section 8, a ring of four takes 6 α + 1.5 S β. Only α and β are unknown, and there are seven measurements.
# A fit chooses the two numbers that miss all seven by as little as possible.
#
# **By hand**, 2 ranks: 2 α + S β. 1 MB takes 3 ms, 3 MB take 5 ms. So 2 MB more cost 2 ms: β is 1 ms per MB, and 1/β =
# 1 GB/s. Then 1 MB costs 1 ms for its bytes and 2 ms for two messages: α = 1 ms.
#
# In the figure the axis is 1.5 S, what a rank sends; a vertical line is a residual (残差), measured minus predicted.
# The smallest and largest ratio of the two are the **range to expect** for a best of 25; a single repetition may take
# several times as long. If ranks share cores, α and β include the waiting. Is a point off by more than 100%? Measure
# again.

# %%
samples = costs.traffic.all_reduce_samples(4, ring_points)  # (messages, bytes, seconds) of each measurement
my_link = costs.traffic.fit_alpha_beta(samples)
least, most = costs.traffic.range_to_expect(my_link, samples)
print(f"alpha = {1e6 * my_link.alpha:.0f} µs per message, 1/beta = {1e-9 / my_link.beta:.2f} GB/s")
print(f"a measurement is {least:.2f} to {most:.2f} times its prediction")
figure, ax = figures.new_axes(8, 4)
figures.show(figure, figures.draw_predicted_against_measured(ax, samples, *my_link, names={6: "ring"}))

# %% [markdown]
# Now predict what you cannot measure: your link with any N and any S. The range comes from 4 ranks: trust it less the
# further you move away.


# %% tags=["interactive"]
@figures.interact(num_ranks=(2, 128), megabytes=[0.01, 1, 100, 14_000])
def predict(num_ranks=8, megabytes=100):
    seconds = costs.traffic.all_reduce_seconds(num_ranks, 1e6 * megabytes, **my_link._asdict())
    milliseconds = [f"{1000 * seconds * times:,.2f} ms" for times in (1, least, most)]
    print("ring: {}, expect {} to {}".format(*milliseconds))


# %% [markdown]
# ## 10 · Read real code
#
# Open `tree_all_reduce` in `labs/shardlab/collectives.py` and `megatron/core/tensor_parallel/mappings.py` of your
# installed `megatron-core` 0.16.1. Three questions:
#
# 1. `"messages"`: how many messages do **six** ranks send in total in one `tree_all_reduce`? A number.
# 2. `"backward_of_copy"`: `_CopyToModelParallelRegion` does nothing forward. Which collective does its backward call?
#    A name, spelled as in `torch.distributed`.
# 3. `"order"`: an activation goes forward and its gradient backward through `_GatherFromSequenceParallelRegion` (with
#    its default arguments). Which two collectives run, in order? A list of names as in the table of section 3, with
#    `_` instead of `-`.

# %% exercise="week01.reading"
reading_answers = {"messages": None, "backward_of_copy": None, "order": None}
### BEGIN SOLUTION
reading_answers["messages"] = 10  # five up, five down
reading_answers["backward_of_copy"] = "all_reduce"
reading_answers["order"] = ["all_gather", "reduce_scatter"]
### END SOLUTION

# %% check="week01.reading" points=1
check("week01.reading", reading_answers)

# %% [markdown]
# ## 11 · Interview: 8 → 64 GPUs, does all-reduce time double?
#
# **`eight_to_sixty_four()`** returns the factors by which the bandwidth term (the coefficient of S·β) and the latency
# term (the coefficient of α) of a ring grow. From 2 to 4 ranks, for example, they go from 1 to 1.5 and from 2 to 6:
# factors of 1.5 and 3. *One line.*


# %% exercise="week01.eight-to-sixty-four"
def eight_to_sixty_four():
    """Factors from 8 to 64 ranks: (bandwidth term, latency term)."""
    ### BEGIN SOLUTION
    return (2 * 63 / 64) / (2 * 7 / 8), (2 * 63) / (2 * 7)
    ### END SOLUTION


# %% check="week01.eight-to-sixty-four" points=1
check("week01.eight-to-sixty-four", eight_to_sixty_four)

# %% [markdown]
# Now answer in five to eight sentences: both factors; seconds for a small and a large tensor with *your* α and β (the
# sliders of section 9); which link the ring has to use when it leaves a node of eight; what you would do about it.

# %% [markdown] manual="week01.interview" points=2
# ### BEGIN SOLUTION
# No: it depends on which term dominates. In a ring the bandwidth term goes from 1.75 S·β to 1.97 S·β, a factor of
# 1.125, and the latency term from 14 α to 126 α, a factor of 9. A 14 GB gradient is all bandwidth, so on equal links
# it takes about 12% longer. A tensor of 10 KB is all latency and takes nine times as long; there a tree (6 levels
# instead of 3) only doubles.
#
# The link changes more: inside a node the ring runs over NVLink, with 64 GPUs it crosses InfiniBand, and one ring is
# only as fast as its slowest link, one card. With a card per GPU NCCL runs eight rings, one through each card, and
# together they are nearly as fast as NVLink (8 · 50 against 450 GB/s on H100); with one card per node they share it.
# Either way a hierarchical all-reduce sends less across: reduce-scatter inside the node, all-reduce of 1/8 of the
# tensor across, all-gather inside. I would also put small gradients into buckets, so that α is paid once for many.
#
# Full marks: both factors, one number from the student's own α and β, the slower link (and how many cards), one remedy.
# ### END SOLUTION

# %% [markdown]
# ## 12 · Recap
#
# <details><summary>Four ranks all-reduce 1 GB in a ring. What does one rank send?</summary>
#
# 2(4−1)/4 · 1 GB, in 2(4−1) messages of a quarter each.
# </details>
#
# <details><summary>Each rank updates only its share of the weights. Which half of an all-reduce is enough?</summary>
#
# The reduce-scatter. The all-gather comes after the update, with weights instead of gradients: ZeRO, week 3.
# </details>
#
# ## 13 · Take away
#
# > **One.** All-Reduce = Reduce-Scatter + All-Gather, 2(N−1)/N · S bytes per rank: nearly independent of N.
#
# > **Two.** Latency grows with N in a ring and with log N in a tree. Use trees for short messages and rings for long
# > ones.
#
# > **Three.** A collective has no name on the wire. Every rank of the group must make the same calls, in the same
# > order, with the same shapes.
#
# ## 14 · Going further
#
# - Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH* (2005). Look for:
#   the sizes at which they change the algorithm.
# - Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations* (2009). Look for: the
#   lower bound of section 8, and where it assumes that ranks do the adding.
# - NVIDIA/nccl, `src/graph/trees.cc`. Look for: the two trees, drawn in a comment.
# - Nanotron, *The Ultra-Scale Playbook*, on collectives. Look for: what NCCL adds to the ring.

# %% [markdown]
# ## Optional · Trees, and fewer bytes between nodes
#
# This part is extra credit.
#
# ### Build the tree
#
# **`tree_all_reduce(tensor, *, group)`** returns the sum over the group on every rank as a new tensor, for any shape
# and dtype. Use only `send` and `recv` (or `isend` and `irecv`). On the way up, for `distance` 1, 2, 4, …, a rank at
# an odd multiple of `distance` sends its sum to `rank - distance`, which adds it to its own. (If `rank + distance`
# does not exist, nothing comes.) The total then takes the same steps in reverse, largest distance first. *About 14
# lines.*
#
# **By hand**, ranks 0 to 3 hold 1, 2, 3, 4. Up: 1 sends 2 to 0 (now 3) while 3 sends 4 to 2 (now 7); then 2 sends 7 to
# 0 (now 10). Down: 0 sends 10 to 2; then 0 to 1, while 2 to 3.


# %% exercise="week01.tree-all-reduce"
def tree_all_reduce(tensor, *, group):
    """Sum over the group, up a binomial tree to the first rank and down again. Returns a new tensor on every rank."""
    ### BEGIN SOLUTION
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    total, arriving = tensor.clone(), torch.empty_like(tensor)
    distances = [2**level for level in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            dist.send(total, group_dst=rank - distance, group=group)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            dist.recv(arriving, group_src=rank + distance, group=group)
            total += arriving
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            dist.recv(total, group_src=rank - distance, group=group)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            dist.send(total, group_dst=rank + distance, group=group)
    return total
    ### END SOLUTION


# %% check="week01.tree-all-reduce" points=2 optional=true
cases = [
    {"ranks": 2, "numbers": 3},
    {"ranks": 4, "numbers": 6, "matrix": True},
    {"ranks": 6, "numbers": 5, "subgroup": [0, 1, 2, 4, 5], "dtype": "bfloat16"},
    {"ranks": 1, "numbers": 3},
]
check("week01.tree-all-reduce", tree_all_reduce, cases=cases)

# %% [markdown]
# ### Where do ring and tree cross?
#
# On four ranks a tree takes 4 α + 4 S β instead of 6 α + 1.5 S β. **Predict:** up to which size does it win?
#
# One detail matters on a small machine. In each step of a ring all four ranks send; in a step of a tree at most two
# do. With two cores, the ring's four messages take two *turns*, the tree's only one. Your α and β were fitted to the
# ring: with t ranks per core, they are t times those of a message that runs alone. For the tree, use α/t and β/t.
#
# **By hand**, t = 2, α = 2 ms, β = 2 ms per MB: the ring takes 12 + 3 S ms, the tree 4 + 4 S ms. They cross at S = 8
# MB. With one core per rank, t = 1, the tree takes 8 + 8 S ms, and they cross at 0.8 MB.

# %%
seconds = shardlab.run(
    collectives.seconds_by_size, collectives.tree_all_reduce, sizes, ranks=4, timeout=60, observe=False
)[0]
tree_points = list(zip(sizes, seconds, strict=True))
turns = collectives.ranks_per_core(4)
one_turn = costs.traffic.Link(my_link.alpha / turns, my_link.beta / turns)
figure, ax = figures.new_axes(8, 4)
words = figures.draw_ring_against_tree(ax, 4, *one_turn, turns=turns, ring=ring_points, tree=tree_points)
figures.show(figure, words)
faster = [size for (size, ring), (_, tree) in zip(ring_points, tree_points, strict=True) if tree < ring]
print(f"measured: the tree wins up to {max(faster, default=0) / 1e6:.2f} MB")

# %% [markdown]
# The lines are predicted, the marks measured. They cross in different places: the fit saw no tree.
#
# ### What libraries use
#
# | algorithm | messages in a row | bytes of the busiest rank | where you meet it |
# |---|---|---|---|
# | ring | 2(N−1) | 2(N−1)/N · S | NCCL, long messages |
# | binomial tree | 2⌈log₂ N⌉ | ⌈log₂ N⌉ · S | yours above, MPI's reduce and broadcast |
# | recursive halving-doubling (递归折半倍增) | 2 log₂ N | 2(N−1)/N · S | MPI, long messages |
# | double binary tree (双二叉树) | ~ 2 log₂ N, pipelined | ~ 2 S | NCCL between nodes |
# | NVLS (NVLink SHARP) | one up, one down | about S | NCCL on 8 H100 |
#
# *Halving-doubling* exchanges half of the tensor with the partner at distance 1, a quarter at distance 2, and so on,
# then does the same in reverse, for powers of two. *Double binary trees* send half of the tensor through each of two
# trees; a leaf of one is an inner node of the other. NCCL estimates seconds for each call (`src/graph/tuning.cc`). It
# can also choose *NVLS*, where switches add, and *PAT*, a tree for all-gathers.

# %% [markdown]
# ### Challenge: send as little as possible between nodes
#
# Take two nodes of two GPUs, a 2×2 mesh. Links inside a node are fast; the link between nodes is slow. A flat ring 0
# → 1 → 2 → 3 → 0 crosses twice, 1 → 2 and 3 → 0, and sends 2(N−1)/N · S = 1.5 S over each. How much does it help if
# ranks 0 and 1 first add up inside their node, and each then sends one half of the sum across?
#
# **By hand**, one number per half: rank 0 holds `[1 2]`, rank 1 `[3 4]`, rank 2 `[10 20]`, rank 3 `[30 40]`. Inside
# the nodes rank 0 gets `4` (1 + 3) and rank 1 `6`, rank 2 `40` and rank 3 `60`. Across, ranks 0 and 2 get `44`, ranks
# 1 and 3 `66`. Inside again, every rank collects `[44 66]`. Rank 0 sent one number to the other node, S/2.

# %%
flat, cross = costs.traffic.ring_all_reduce_bytes(4, 1), costs.traffic.hierarchical_all_reduce_cross_bytes(2, 2, 1)
print(f"a NIC per GPU: the busiest carries {flat} S with a flat ring, {cross} S here: {flat / cross:g} times less")
print(f"one link per node: {flat} S with a flat ring, 2 · {cross} S here: {flat / (2 * cross):g} times less")

# %% [markdown]
# Both are right, for different machines. Two flat rings, one through each NIC (网卡), also share the load, as in NCCL;
# then only 1.5× is left.
#
# **`hierarchical_all_reduce(tensor, *, node_group, cross_group)`** returns the sum over all ranks as a new tensor,
# and **no rank may send more than S/2 to the other node**; with M nodes of G ranks each, 2(M−1)/M of S/G to other
# nodes. `node_group` holds the ranks of this node, `cross_group` the ranks at this rank's position in every node.
# Support any shape, size, dtype, number of nodes, and ranks per node. Your own functions are all you need. *About 6
# lines.*


# %% exercise="week01.hierarchical-all-reduce"
def hierarchical_all_reduce(tensor, *, node_group, cross_group):
    """Sum over all ranks of all nodes. Every rank sends at most 2(M-1)/M of its chunk to the other M-1 nodes."""
    ### BEGIN SOLUTION
    chunks = tensor.flatten().tensor_split(dist.get_world_size(node_group))
    node_sum = ring_reduce_scatter(chunks, group=node_group)
    total = ring_all_reduce(node_sum, group=cross_group)
    gathered = ring_all_gather(total, [chunk.numel() for chunk in chunks], group=node_group)
    return torch.cat(gathered).view(tensor.shape)
    ### END SOLUTION


# %% check="week01.hierarchical-all-reduce" points=3 optional=true
cases = [{"ranks": 4, "numbers": 8}, {"ranks": 6, "numbers": 250, "ranks_per_node": 3, "matrix": True}]
cases += [{"ranks": 1, "numbers": 3, "ranks_per_node": 1}]
check("week01.hierarchical-all-reduce", hierarchical_all_reduce, cases=cases)

# %% [markdown]
# **An experiment, not graded.** Let N grow in `costs.traffic.tree_ring_crossover_bytes(N, *my_link)`: from which N
# does the tree win for 1 MB?
