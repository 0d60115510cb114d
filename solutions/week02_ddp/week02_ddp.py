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
# # Week 2 · Data parallelism (数据并行): every rank has the whole model and part of the batch
#
# *Core: about 150 minutes; optional: about 80 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** DDP: one broadcast, hooks, buckets, and messages that are sent during the backward;
# - [ ] **predict** what share of a step is spent waiting, with and without overlap;
# - [ ] **compress** a gradient to one bit per number or to a tenth of its bytes, and keep the loss (optional).
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>How many bytes does each rank send in a ring all-reduce of S bytes?</summary>
#
# 2(N−1)/N · S (week 1). For two ranks: S.
# </details>
#
# <details><summary>In what order does a backward finish the gradients?</summary>
#
# From the last layer to the first. So the last layer's gradient can be sent early.
# </details>
#
# <details><summary>Where does autograd put a gradient, and what if there is one already?</summary>
#
# Into `parameter.grad`; a second backward *adds* to it. This is how microbatches are accumulated.
# </details>

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import collectives, costs, data_parallel, figures, meter

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# Every GPU holds the whole model and processes its part of the batch. Before the optimizer can step, all need the
# mean (平均) of all gradients. Two GPUs, connected by PCIe at 32 GB/s, compute for 10 ms per step, two thirds of it
# the backward. One model has 24 million fp32 parameters, the other 64 million. How much can the link carry during one
# backward? Guess.

# %%
pcie, compute, window = 32e9, 0.010, 0.010 * 2 / 3
bars = {f"{n} million parameters": costs.traffic.ring_all_reduce_bytes(2, 4e6 * n) for n in (24, 64)}
figure, ax = figures.new_axes(7, 1.8)
notes = [f"{1000 * num_bytes / pcie:.1f} ms" for num_bytes in bars.values()]
limit = {"limit": pcie * window, "limit_label": "what PCIe can carry in a backward"}
title = "One gradient hides behind its backward, one does not"
figures.show(
    figure,
    figures.draw_bars(ax, bars, title=title, notes=notes, **limit),
)

for name, bandwidth in [("PCIe", pcie), ("NVLink", costs.find_accelerator("a100").nvlink)]:
    for label, num_bytes in bars.items():
        seconds = num_bytes / bandwidth
        added, share = seconds / compute, seconds / (compute + seconds)
        print(f"{name}, {label}, no overlap: adds {added:.0%} to the compute; communication is {share:.0%} of the step")

# %% [markdown]
# Lecture notes say that DDP adds 20–40% to a step over PCIe and 5–10% over NVLink. It depends on bytes, bandwidth and
# compute. Watch the **communication efficiency**: compute / (compute + *exposed* communication), where exposed means
# that nothing is computed meanwhile.
#
# ### Warm-up: efficiency
#
# **`efficiency(compute_seconds, communication_seconds, window_seconds)`**: as much communication is hidden as fits
# into the window, the time in which the rank is computing. By hand: with 10 ms of compute, 4 ms of communication, and
# a window of 3 ms, 1 ms is exposed, and the efficiency is 10/11. *About 2 lines.*
#
# > **Fresh cases.** Grading adds cases: other numbers; sizes, up to more than 20,000; float32, float64 and bfloat16; 1
# > to 4 ranks; groups such as ranks 1 and 3; layers, microbatches, buckets, and which ranks have no gradient.


# %% exercise="week02.efficiency"
def efficiency(compute_seconds, communication_seconds, window_seconds):
    """Return compute / (compute + exposed communication), at most 1. All arguments are in seconds."""
    ### BEGIN SOLUTION
    exposed = max(0, communication_seconds - window_seconds)
    return compute_seconds / (compute_seconds + exposed)
    ### END SOLUTION


# %% check="week02.efficiency" points=1
cases = [
    {"compute_seconds": 0.010, "communication_seconds": 0.004, "window_seconds": window}
    for window in (0.0, 0.003, 0.005)
]
check("week02.efficiency", efficiency, cases=cases)

# %% [markdown]
# ## 2 · The picture first
#
# Four layers, 10 ms of compute, 8 ms on the link. F is the forward. Each layer's backward has the layer's number and
# two halves, for the gradients of its input and of its weights. First all gradients are sent in one message after the
# backward, then each layer's as soon as it is ready. Why does the second step take more than 10 ms?

# %%
forward, backward = 0.010 / 3, [0.010 / 6] * 4  # seconds; backward: one entry per layer
for name, places in [("One message at the end", [3]), ("One message per layer", [0, 1, 2, 3])]:
    ready = [costs.overlap.ready_times(forward, backward)[place] for place in places]
    timeline = costs.overlap.transfers(ready, [0.008 / len(ready)] * len(ready))
    figure, ax = figures.new_axes(8, 1.7)
    figures.show(figure, figures.draw_overlap(ax, forward, backward, timeline, title=name, limit_seconds=0.018))

# %% [markdown]
# The forward has no gradients to send. The last bucket cannot be sent before the backward is over, so it is always
# exposed: 2 ms. One more ms is exposed because the link falls behind: a bucket takes 2 ms, a layer's backward 1.67.
#
# ## 3 · Notation
#
# - **N** ranks, **S** bytes of gradients; the batch is split over the data axis, **`X[B_D, H]`**; the weights are
#   not, so every rank has **`W[H, H]`**.
# - A local gradient is a partial sum, **`G[H, H]{U_D}`**; an all-reduce completes it (week 1).
# - A **bucket** (桶) is a list of parameter numbers whose gradients are sent in one message: `[[3, 2], [1, 0]]`.
#
# ## 4 · Bug hunt: two lines that are easy to forget
#
# Four ranks fit the same weights with plain gradient descent. The first run is correct, the second does not divide,
# the third starts with different weights. **Which run fails, and which only looks as if it worked? Commit to an
# answer, then run.**


# %%
def forty_steps(divides, equal_start):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0 if equal_start else rank)
    weight = torch.randn(8)
    torch.manual_seed(100 + rank)
    for _ in range(40):
        x = torch.randn(32, 8)
        gradient = x.T @ (x @ (weight - 1)) / 32  # all weights should become 1
        dist.all_reduce(gradient)
        weight -= 0.6 * gradient / (size if divides else 1)
    return weight


for divides, equal_start in [(True, True), (False, True), (True, False)]:
    weights = shardlab.run(forty_steps, divides, equal_start, ranks=4)
    wrong, apart = (weights[0] - 1).norm(), (weights[0] - weights[3]).norm()
    print(f"divides {divides}, same start {equal_start}: rank 0 is off by {wrong:.1e}, the ranks differ by {apart:.1e}")

# %% [markdown]
# A sum instead of a mean acts like a learning rate that is N times too high, and this run explodes. Adam would hide it:
# it divides a gradient by its own magnitude. Different starts are worse: **the difference between two ranks never
# shrinks**, because both subtract the same mean. Yet each rank's loss may fall.
#
# ### Repair it: `average_gradients`
#
# **`average_gradients(gradients, *, group)`** takes this rank's gradients, a list of tensors of any shapes, and
# returns the list of their means over the group, in the same shapes and dtypes. Leave the inputs unchanged. You may
# use the library's all-reduce from now on. Send bf16 as bf16, and no more than an all-reduce of all gradients does:
# 2(N−1)/N of their bytes. By hand, two ranks: `[[1, 2], [3]]` on rank 0 and `[[3, 6], [5]]` on rank 1 become
# `[[2, 4], [4]]` on both. *About 6 lines.*


# %% exercise="week02.average-gradients"
def average_gradients(gradients, *, group):
    """Return the mean of every gradient over the group as new tensors of the same shapes and dtypes."""
    ### BEGIN SOLUTION
    means = []
    for gradient in gradients:
        mean = gradient.clone()
        dist.all_reduce(mean, group=group)
        means.append(mean / dist.get_world_size(group))
    return means
    ### END SOLUTION


# %% check="week02.average-gradients" points=2
cases = [
    {"ranks": 2, "numbers": 4},
    {"ranks": 3, "numbers": 7},
    {"ranks": 4, "numbers": 5, "subgroup": [1, 3], "dtype": "bfloat16"},
    {"ranks": 1, "numbers": 3},
]
check("week02.average-gradients", average_gradients, cases=cases)

# %% [markdown]
# ## 5 · Buckets
#
# Every message costs α, however short it is, and a model has hundreds of small biases. One message for everything
# costs α only once, but hides nothing.
#
# **`assign_buckets(sizes, bucket_bytes)`**: `sizes[i]` is the size of parameter i in bytes, in the order of the
# model. Return a list of buckets, each a list of parameter numbers, in the order of the backward: last parameter
# first. Fill greedily: a parameter goes into the open bucket if it fits; otherwise it opens the next bucket. A
# parameter larger than a bucket gets its own bucket. *About 8 lines.*
#
# **By hand:** sizes `[4, 12, 4, 4]`, buckets of 8. Parameters 3 and 2 fill the first bucket. Parameter 1 is larger
# and gets its own; 0 does not fit there: `[[3, 2], [1], [0]]`.


# %% exercise="week02.assign-buckets"
def assign_buckets(sizes, bucket_bytes):
    """Group parameter numbers into lists, last parameter first, each list at most bucket_bytes where possible."""
    ### BEGIN SOLUTION
    buckets, filled = [], 0
    for number in reversed(range(len(sizes))):
        if not buckets or filled + sizes[number] > bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(number)
        filled += sizes[number]
    return buckets
    ### END SOLUTION


# %% check="week02.assign-buckets" points=2
some = [([100, 40, 60, 20], 100), ([8, 8, 400, 8], 64), ([8, 8, 16, 400], 16)]
cases = [{"sizes": sizes, "bucket_bytes": bucket_bytes} for sizes, bucket_bytes in some]
check("week02.assign-buckets", assign_buckets, cases=cases)

# %% [markdown]
# **torch's rule** differs in two ways. It closes a bucket once it has *reached* its limit, and may exceed it by
# nearly one parameter. And it follows the order in which gradients really arrive. The first iteration sends
# everything in one bucket and records that order; then buckets are rebuilt (重建) in it, a small one and then 25 MiB
# each. In the next cell gradients of 20, 60, 40 and 100 bytes arrive. Where would your function split them?

# %%
sizes = [20, 60, 40, 100]  # bytes, in the order in which the gradients arrive
buckets, _ = dist._compute_bucket_assignment_by_size([torch.empty(size // 4) for size in sizes], [100], [False] * 4)
print("torch, buckets of 100 bytes:", [[sizes[number] for number in bucket] for bucket in buckets])

# %% [markdown]
# Yours: `[20, 60]`, `[40]`, `[100]`.
#
# ## 6 · DDP
#
# A *hook* (钩子) is a function that autograd calls when a gradient is complete:
# `parameter.register_post_accumulate_grad_hook(hook)` calls `hook(parameter)`. So a message can be sent in the middle
# of the backward.
#
# **`same_start(model, *, group)`**, called once at the start, broadcasts the weights of the group's first rank. *2
# lines.*
#
# **`ddp_backward(model, microbatches, buckets, *, group)`** leaves in `parameter.grad`, which the caller has cleared,
# the mean over the ranks of the gradient of `sum over microbatches of model(rows).sum()`:
#
# 1. All microbatches but the last: a plain backward. Gradients accumulate; nothing is sent (`no_sync` in frameworks).
# 2. The last one: when all gradients of a bucket have arrived, all-reduce them as one flat tensor. Make one call per
#    bucket, in the order of `buckets` on every rank, because calls are not labeled. Gradients may arrive in any
#    order, not only that of `model.parameters()`, and it may differ between ranks.
# 3. After the backward: wait, divide, copy back, and remove the hooks, which would pile up.
#
# **By hand**, two ranks, one weight w, `model(rows)` = w · rows, two microbatches each: rank 0 has the rows 1 and 2,
# rank 1 has 3 and 4. The gradient of a sum over rows is the sum of the rows. Rank 0 accumulates 1, then 1 + 2 = 3;
# its bucket is now full and is sent. Rank 1 sends 7. Both end with `w.grad` = (3 + 7)/2 = 5, after one message.
#
# *About 20 lines.* Use no other collectives. To test for overlap, the check lets other ranks enter a layer's backward
# only after rank 0 has entered the next. If rank 0 waits inside a hook, all wait forever.
#
# <details><summary>Hint 1: what a hook does</summary>
#
# It removes its number from `waiting`, a list with one set per bucket. Then it sends every full bucket whose turn has
# come.
# </details>
#
# <details><summary>Hint 2: the hook, one line missing</summary>
#
# ```python
# def arrived(number):
#     for numbers in waiting:
#         numbers.discard(number)
#     while len(sent) < len(buckets) and not waiting[len(sent)]:
#         flat = torch.cat([parameters[n].grad.flatten() for n in buckets[len(sent)]])
#         ...  # start its all-reduce, and keep flat and the handle in `sent`
# ```
# </details>
#
# <details><summary>Hint 3: the end</summary>
#
# `flat.split([parameters[n].numel() for n in bucket])` splits a bucket; `view_as(parameters[n])` restores the shape.
# </details>


# %% exercise="week02.ddp-backward"
def same_start(model, *, group):
    """Overwrite all weights with those of the group's first rank."""
    ### BEGIN SOLUTION
    for parameter in model.parameters():
        dist.broadcast(parameter.data, group_src=0, group=group)
    ### END SOLUTION


def ddp_backward(model, microbatches, buckets, *, group):
    """Leave the mean gradient over the group in parameter.grad. Buckets are sent during the last backward."""
    ### BEGIN SOLUTION
    parameters = list(model.parameters())
    for rows in microbatches[:-1]:
        model(rows).sum().backward()
    waiting, sent = [set(bucket) for bucket in buckets], []

    def arrived(number):
        for numbers in waiting:
            numbers.discard(number)
        while len(sent) < len(buckets) and not waiting[len(sent)]:
            flat = torch.cat([parameters[n].grad.flatten() for n in buckets[len(sent)]])
            sent.append((flat, dist.all_reduce(flat, group=group, async_op=True)))

    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _, number=number: arrived(number))
        for number, parameter in enumerate(parameters)
    ]
    model(microbatches[-1]).sum().backward()
    for hook in hooks:
        hook.remove()
    for bucket, (flat, work) in zip(buckets, sent, strict=True):
        work.wait()
        for n, mean in zip(bucket, flat.split([parameters[n].numel() for n in bucket]), strict=True):
            parameters[n].grad.copy_(mean.view_as(parameters[n]) / dist.get_world_size(group))
    ### END SOLUTION


def start_and_backward(model, microbatches, buckets, *, group):
    """Given: call both functions, and return the weights after `same_start`."""
    same_start(model, group=group)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    ddp_backward(model, microbatches, buckets, group=group)
    return weights


# %% check="week02.ddp-backward" points=4
two, orders = {"microbatches": 2}, [[1, 0, 2], [2, 1, 0]]  # the order in which each rank's forward uses the layers
cases = [
    {"ranks": 4, "widths": [3, 4, 2], "bucket_bytes": 40, "subgroup": [1, 3], "calls": 2, **two, "part": "gradients"},
    {"ranks": 2, "widths": [3] * 4, "bucket_bytes": 1, "orders": orders, **two, "part": "gradients"},
    {"ranks": 2, "widths": [3, 4, 4, 2], "bucket_bytes": 1, **two, "part": "overlap"},
    {"ranks": 1, "widths": [3, 2], "bucket_bytes": 1, **two, "part": "gradients"},
]
check("week02.ddp-backward", start_and_backward, cases=cases)

# %% [markdown]
# ## 7 · Predict, then measure
#
# **Calls and bytes.** The package's `DataParallel` is your code as a module. On 3 ranks, what changes when you halve
# the bucket size? And with four microbatches, with and without `no_sync`?


# %%
def calls_and_bytes(bucket_bytes, microbatches=1, quietly=False):
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    model = data_parallel.DataParallel(model, bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes)
    with meter.record() as bill:
        for _ in range(microbatches - 1):
            with model.no_sync() if quietly else torch.enable_grad():
                model(torch.ones(2, 64)).sum().backward()
        model(torch.ones(2, 64)).sum().backward()
    return f"{bill.count('all_reduce')} calls, {bill.sent_bytes:.0f} bytes"


print(f"predicted: {costs.traffic.ring_all_reduce_bytes(3, 4 * 4 * (64 * 64 + 64)):.0f} bytes")
for bucket_bytes in (1, 17_000, 34_000, 68_000):
    print(f"buckets of {bucket_bytes} bytes:", shardlab.run(calls_and_bytes, bucket_bytes, ranks=3)[0])
for quietly in (False, True):
    print(f"4 microbatches, no_sync {quietly}:", shardlab.run(calls_and_bytes, 68_000, 4, quietly, ranks=3)[0])

# %% [markdown]
# Calls depend on the bucket size, bytes do not. Without `no_sync` every microbatch sends all gradients.
#
# **Seconds.** Ranks that share cores cannot show overlap (重叠); ranks that *sleep* can. Eight layers sleep for 400 ms
# in total, two thirds of it in the backward, and an emulated link takes 320 ms for the gradient. It is section 2,
# forty times slower. Predict the efficiency for 1, 2 and 8 buckets.

# %%
LAYERS, PARAMETERS, BANDWIDTH, COMPUTE = 8, 8000, 0.8e6, 0.400  # bytes per second; seconds
FORWARD, BACKWARD = COMPUTE / 3, [COMPUTE * 2 / 3 / LAYERS] * LAYERS


def predicted(num_buckets, bandwidth=BANDWIDTH):
    ready = costs.overlap.ready_times(FORWARD, BACKWARD)[LAYERS // num_buckets - 1 :: LAYERS // num_buckets]
    seconds = costs.traffic.ring_all_reduce_bytes(2, 4 * PARAMETERS * LAYERS) / bandwidth / num_buckets
    return costs.overlap.transfers(ready, [seconds] * num_buckets)


def measured(num_buckets):
    sleeps = {"forward_seconds": FORWARD / LAYERS, "backward_seconds": BACKWARD[0]}
    layers = [data_parallel.EmulatedLayer(PARAMETERS, **sleeps) for _ in range(LAYERS)]
    num_bytes = 4 * PARAMETERS * LAYERS // num_buckets
    sizes = {"bucket_bytes": num_bytes, "first_bucket_bytes": num_bytes}
    link = data_parallel.over_link(BANDWIDTH)
    model = data_parallel.DataParallel(torch.nn.Sequential(*layers), **sizes, reduce=link)

    def backward():
        model(torch.ones(1)).sum().backward()

    return min(collectives.seconds_of(backward, group=dist.group.WORLD, repetitions=3))


# %%
for num_buckets in (1, 2, 8):
    exposed = costs.overlap.exposed_seconds(COMPUTE, predicted(num_buckets))
    seconds = max(shardlab.run(measured, num_buckets, ranks=2, observe=False))
    print(f"{num_buckets} buckets: predicted {costs.overlap.efficiency(COMPUTE, exposed):.1%}", end=", ")
    print(f"measured {costs.overlap.efficiency(COMPUTE, max(0.0, seconds - COMPUTE)):.1%}")
figure, ax = figures.new_axes(8, 1.7)
figures.show(figure, figures.draw_overlap(ax, FORWARD, BACKWARD, predicted(8), title="Eight buckets"))

# %% [markdown]
# **The range to expect:** one or two points below the prediction, more on a busy machine.
#
# > **A correction.** "A model that takes 10 ms to compute and 8 ms to communicate has only 55% efficiency" is true
# > only if *nothing* overlaps, as with your one bucket. With eight it is 82%, and it cannot exceed 88%: the backward
# > takes 6.7 ms, and 8 ms do not fit into it.
#
# Move the sliders: which helps more, a faster link or more buckets?


# %% tags=["interactive"]
@figures.interact(num_buckets=[1, 2, 4, 8], kilobytes_per_second=(200, 3000, 100))
def explore(num_buckets=4, kilobytes_per_second=800):
    figure, ax = figures.new_axes(8, 1.7)
    timeline = predicted(num_buckets, 1e3 * kilobytes_per_second)
    figures.show(figure, figures.draw_overlap(ax, FORWARD, BACKWARD, timeline, title=f"{num_buckets} buckets"))


# %% [markdown]
# **The same training.** N ranks that each take part of the batch must train exactly as one process with all of it. The
# model learns to count. **Predict:** how far apart are the losses of one rank and of two after 30 steps?


# %%
class NextToken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gpt = shardlab.model.GPT(shardlab.model.GPTConfig(layers=1, hidden=32, vocabulary=16))

    def forward(self, rows):
        return shardlab.model.next_token_loss(self.gpt(rows[:, :-1]), rows[:, 1:])


def mean_afterwards(model, microbatches, buckets, *, group):  # like your ddp_backward, but without overlap
    for rows in microbatches:
        model(rows).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)


# %%
def losses(steps, batch, lr, backward):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, curve, rank, size = NextToken(), [], dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    buckets = [[number] for number in reversed(range(len(list(model.parameters()))))]
    for step in range(steps):
        starts = torch.randint(16, (batch, 1), generator=torch.Generator().manual_seed(step))
        rows = (starts + torch.arange(33)) % 16
        loss = model(rows).item()  # loss of the whole batch, for comparison
        optimizer.zero_grad()
        backward(model, [rows[rank::size]], buckets, group=dist.group.WORLD)  # this rank's share
        optimizer.step()
        curve.append(loss)
    return curve


one, two = (shardlab.run(losses, 30, 8, 0.1, mean_afterwards, ranks=n, timeout=60)[0] for n in (1, 2))
print(f"largest difference in 30 steps: {max(abs(a - b) for a, b in zip(one, two, strict=True)):.1e}")
figure, ax = figures.new_axes(7, 2.4)
words = figures.draw_losses(ax, [list(enumerate(one, 1)), list(enumerate(two, 1))])
ax.set_ylim(0, 3.5)
figures.show(figure, words)

# %% [markdown]
# The curves coincide; only the order of the sums differs. Once your check passes, replace `mean_afterwards` by
# `ddp_backward`: the curve must not change.
#
# ## 8 · Bug hunt: a parameter that one rank does not use
#
# On rank 0 the input takes another branch, and parameter 1 gets no gradient. The code below skips it. **Which rank
# waits, and for which? Commit to an answer, then run.**


# %%
def skip_what_is_missing(gradients):
    for gradient in gradients:
        if gradient is not None:
            dist.all_reduce(gradient)
    return gradients


def own_gradients():
    ones = [torch.ones(3) * 10**n for n in range(3)]
    return skip_what_is_missing([ones[0], None, ones[2]] if dist.get_rank() == 0 else ones)


try:
    shardlab.run(own_gradients, ranks=2, timeout=5)
except shardlab.RanksFailed as report:
    print(report)

# %% [markdown]
# Rank 1 waits in its *third* call for a rank that has already returned. Its second call returned a wrong result: rank
# 0's gradient of parameter 2 was added to rank 1's of parameter 1. Calls are not labeled.
#
# ### Repair it: `average_used`
#
# **`average_used(gradients, parameters, *, group)`**: `gradients[i]` may be None on some ranks; `parameters[i]` has
# its shape and dtype on every rank. Return the means over *all* ranks of the group, counting None as zeros. Where
# **no** rank has a gradient, return None: with a zero, an optimizer with momentum or weight decay would still take a
# step. Leave the inputs unchanged. Send no more than all-reduces of all `parameters` would, plus 4 KB to find out
# which ranks used what.
#
# **By hand**, two ranks, three parameters: `[2, None, None]` on rank 0 and `[4, 6, None]` on rank 1 become
# `[3, 3, None]` on both. *About 9 lines.*


# %% exercise="week02.unused"
def average_used(gradients, parameters, *, group):
    """Mean gradients over the group, counting None as zeros. Returns None where no rank has a gradient."""
    ### BEGIN SOLUTION
    used = torch.tensor([gradient is not None for gradient in gradients], dtype=torch.uint8)
    dist.all_reduce(used, dist.ReduceOp.MAX, group=group)
    means = []
    for gradient, parameter, is_used in zip(gradients, parameters, used.tolist(), strict=True):
        mean = torch.zeros_like(parameter) if gradient is None else gradient.clone()
        dist.all_reduce(mean, group=group)
        means.append(mean / dist.get_world_size(group) if is_used else None)
    return means
    ### END SOLUTION


# %% check="week02.unused" points=2
cases = [  # "missing": for each gradient, which ranks of the group have none
    {"ranks": 2, "numbers": 4, "missing": [[0], [1], []]},
    {"ranks": 4, "numbers": 900, "missing": [[0, 1, 2], [0], [1, 2]], "subgroup": [1, 2, 3]},
    {"ranks": 1, "numbers": 3, "missing": [[0], [], []]},
]
check("week02.unused", average_used, cases=cases)

# %% [markdown]
# PyTorch calls this `find_unused_parameters=True`. Leave it off if you can: it walks the graph before each backward,
# and hides a branch that you forgot.
#
# ## 9 · Read real code
#
# Open `torch/nn/parallel/distributed.py` and `torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py`. Three
# questions, and one about a lecture:
#
# 1. `"first_bucket"`: buckets have 25 MiB, but the first one is smaller so that it can be sent early. How many
#    **bytes** may it have? Print its constant. A number.
# 2. `"at_the_start"`: which function does `DistributedDataParallel.__init__` call so that all ranks start with the
#    same weights? A name.
# 3. `"order"`: when a bucket goes through `_compress_hook`, in which order do these four *happen*: `all_reduce`,
#    `copy_`, `div_`, `to`? A list of names.
# 4. `"autocast_bytes"`: lecture 18 of EfficientML says that mixed precision (混合精度) halves what is sent. Test it:
#    fp32 weights, forward under `torch.autocast("cpu", dtype=torch.bfloat16)`, backward; print a gradient's dtype. How
#    many bytes does a `DistributedDataParallel` bucket hold *per parameter*, without a hook? A number.

# %% exercise="week02.reading"
reading_answers = {"first_bucket": None, "at_the_start": None, "order": None, "autocast_bytes": None}
### BEGIN SOLUTION
reading_answers["first_bucket"] = 1024 * 1024  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
reading_answers["at_the_start"] = "_sync_module_states"
reading_answers["order"] = ["to", "div_", "all_reduce", "copy_"]  # divided first: an fp16 sum could overflow
reading_answers["autocast_bytes"] = 4  # a gradient has its weight's dtype; only the activations are bf16
### END SOLUTION

# %% check="week02.reading" points=1
check("week02.reading", reading_answers)

# %% [markdown]
# ## 10 · Interview: 10 ms of compute, 8 ms of communication: what efficiency?
#
# **`ten_and_eight()`** returns two numbers: the efficiency without overlap, and the best that DDP can do, when the
# whole backward (two thirds of the compute) hides communication. By hand, for 6 and 5 ms: 6/11 and 6/7. *One or two
# lines; your `efficiency` helps.*


# %% exercise="week02.ten-and-eight"
def ten_and_eight():
    """Efficiency for 10 ms of compute and 8 ms of communication: (without overlap, with the backward as window)."""
    ### BEGIN SOLUTION
    return efficiency(10, 8, 0), efficiency(10, 8, 10 * 2 / 3)
    ### END SOLUTION


# %% check="week02.ten-and-eight" points=1
check("week02.ten-and-eight", ten_and_eight)

# %% [markdown]
# Now answer in five to eight sentences: both numbers and where the difference comes from; what *you* measured in
# section 7 for one and for eight buckets; why it was below the best; three things you would change, the cheapest
# first; and what bf16 gradients, half of the bytes, would gain here.

# %% [markdown] manual="week02.interview" points=2
# ### BEGIN SOLUTION
# Without overlap 10/18 = 56%. With overlap only the backward can hide communication, 6.7 of the 10 ms, since there is
# no gradient before it; 1.3 ms remain exposed and the best is 10/11.3 = 88%.
#
# I measured about 55% with one bucket and about 81% with eight. With eight it stays below 88% because the first
# bucket is ready only after the first layer of the backward, and until then the link is idle. Smaller first buckets
# help; buckets that are too small pay α each.
#
# First I would check that it overlaps at all (bucket size, an early parameter in the last bucket, a hook that waits).
# Then I would accumulate microbatches under no_sync: half the communication per sample, for a larger batch. Then bf16
# gradients, half of the bytes: 4 ms fit behind the backward except for the last bucket. Then a faster link. Top-k or
# 1-bit would make it a tenth, but 8 ms only need to become 6, and bf16 does that without affecting convergence.
#
# Full marks: 56% and 88% with the reason, the student's own numbers, why the last or first bucket costs time, a cheap
# remedy before an expensive one.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Recap
#
# <details><summary>You double the bucket size. What changes: calls, bytes, exposed time?</summary>
#
# Half the calls, the same bytes. Exposed time may go either way: fewer α, but a longer last bucket.
# </details>
#
# <details><summary>Two ranks print the same averaged gradient but save different models. What is missing?</summary>
#
# The broadcast of the first rank's weights. With equal gradients, an initial difference never changes.
# </details>
#
# ## 12 · Take away
#
# > **One.** DDP is one broadcast at the start and one mean per step: 2(N−1)/N · S bytes per rank, for any buckets.
#
# > **Two.** Only the backward hides communication, and the last bucket is always exposed.
#
# > **Three.** Every rank makes the same calls in the same order, even for gradients it does not have.
#
# ## 13 · Going further
#
# - Li et al., *PyTorch Distributed*, arXiv 2006.15704. Look for: why buckets are filled in reverse order (section
#   3.2), and the bucket size at which their curves have a minimum.
# - Karimireddy et al., *Error Feedback Fixes SignSGD*, arXiv 1901.09847. Look for: the counterexample where signs
#   alone never converge. Stich et al., arXiv 1809.07599: top-k with memory, algorithm 1.
# - Goyal et al., *Accurate, Large Minibatch SGD*, arXiv 1706.02677. Look for: the linear scaling rule, its warm-up,
#   and the batch size up to which it held. Vogels et al., *PowerSGD*, arXiv 1905.13727: why they wanted linearity.
# - Wen et al., *TernGrad*, arXiv 1705.07878, and Alistarh et al., *QSGD*, arXiv 1610.02132. Look for: what the noise
#   costs.
# - **Lab 1**: `python labs/lab01-parallelism-sim/dp_simulation.py`, in a terminal, predicts a step on your machine
#   and measures it (`labs/README.md`). `docs/one-screen/ddp.md` shows the whole DDP step on one screen.

# %% [markdown]
# ## Optional · Fewer bytes
#
# This part is extra credit. Four ways to encode n numbers:
#
# | | what is sent | bytes | unbiased? |
# |---|---|---|---|
# | **top-k** | the k largest numbers and their positions | 8k | no |
# | **1-bit SGD** (Seide et al., 2014) | signs, and one mean per sign | n/8 + 8 | no |
# | **TernGrad** | −1, 0 or 1, drawn at random, times the largest | n/4 + 4 | yes |
# | **QSGD** | a level 0 … s, drawn at random, and a sign, times a norm | n·bits/8 + norms | yes |
#
# The sum of two such messages is not another such message: two ranks keep different numbers and have different
# scales. So messages of m bytes are all-gathered, not all-reduced: each rank sends (N−1)·m bytes. **Predict:** up to
# how many ranks is 1-bit worth it?
#
# Two compressors *can* be all-reduced. **bf16** (`bf16_compress_hook`) halves the bytes for any N. **PowerSGD**
# treats a gradient as an n × m matrix M and sends P = M·Q, then Mᵀ·P, with r columns each: (n + m)·r numbers. Both
# are linear in M, so the sum of the ranks' products is the product of the sum. Error feedback, below, keeps what is
# lost.

# %%
num = 124_000_000  # GPT-2
messages = {
    "top-k, 1%": costs.compression.top_k_bytes(costs.compression.kept_elements(num, 0.01)),
    "1-bit": costs.compression.one_bit_bytes(num),
    "TernGrad": costs.compression.terngrad_bytes(num),
    "QSGD, 7 levels": costs.compression.qsgd_bytes(num, levels=7, block=64),
}
for name, message in messages.items():
    ranks = costs.compression.break_even_ranks(4 * num, message)
    print(
        f"{name}: {message / 1e6:.1f} MB instead of {4 * num / 1e6:.0f}; sends less than a ring up to {ranks:.0f} ranks"
    )
rows, columns, r = 4096, 4096, 4
print(f"PowerSGD, r = {r}: {rows * columns / ((rows + columns) * r):.0f} times fewer numbers of a 4096 × 4096 matrix")

# %% [markdown]
# ### One bit per number
#
# **`one_bit_mean(gradient, *, group)`** takes this rank's flat fp32 gradient and returns the mean over the group of
# what 1-bit SGD sends: every number is replaced by the mean of all numbers *of its sign* on its rank, with 0 counted
# as positive. Send each other rank no more than ⌈n/8⌉ bytes of signs and two fp32 means. With `powers = 2 **
# torch.arange(8)`, eight signs times `powers` add up to a byte, and `byte & powers` recovers them.
# `view(torch.uint8)` turns the means into bytes. *About 12 lines.*
#
# **By hand**: `[3, −2, 1, −4]` is sent as the signs `1 0 1 0` and the means 2 and −3, and decoded as `[2, −3, 2,
# −3]`. The other rank has `[1, 1, 1, 1]`, with no negative number. The mean is `[1.5, −1, 1.5, −1]`.


# %% exercise="week02.one-bit"
def one_bit_mean(gradient, *, group):
    """Mean over the group of each rank's gradient, encoded as signs and two means. Returns a new flat fp32 tensor."""
    ### BEGIN SOLUTION
    positive, powers = gradient >= 0, 2 ** torch.arange(8)
    means = torch.stack([gradient[chosen].sum() / chosen.sum().clamp(min=1) for chosen in (positive, ~positive)])
    filled_up = torch.nn.functional.pad(positive.int(), (0, -len(gradient) % 8))
    signs = (filled_up.view(-1, 8) * powers).sum(1).to(torch.uint8)
    message = torch.cat([means.view(torch.uint8), signs])
    messages = [torch.empty_like(message) for _ in range(dist.get_world_size(group))]
    dist.all_gather(messages, message, group=group)
    total = torch.zeros_like(gradient)
    for one in messages:
        up, down = one[:8].view(torch.float32)
        theirs = ((one[8:, None] & powers) != 0).flatten()[: len(gradient)]
        total += torch.where(theirs, up, down)
    return total / len(messages)
    ### END SOLUTION


# %% check="week02.one-bit" points=2 optional=true
cases = [{"ranks": 2, "numbers": 160}, {"ranks": 4, "numbers": 203, "subgroup": [1, 3], "one_sign": 1}]
cases += [{"ranks": 1, "numbers": 21}]
check("week02.one-bit", one_bit_mean, cases=cases)

# %% [markdown]
# ### Rounding by chance
#
# "Compression introduces bias" holds for top-k and 1-bit. **TernGrad** and **QSGD** round at random (随机量化): the
# mean of many draws is right, but noisy. Both measure a number in units of scale / levels, its *height*: a height of
# 2.3 is sent as 3 in 30% of all draws and otherwise as 2, with the number's sign.
#
# - **`terngrad(gradient, *, generator)`**: one level; the scale is the largest magnitude.
# - **`qsgd(gradient, levels, *, generator)`**: the scale is the Euclidean norm √(Σ g²) of the gradient.
#
# Both return (scale, codes): the scale, and a tensor of whole numbers from −levels to levels, so that scale · codes /
# levels is unbiased (无偏). Each number has its own draw, from `generator` alone. The gradient is flat fp32. If it is
# all zeros, so are scale and codes.
#
# **`message_bits(num_numbers, levels)`**: 32 bits for the scale, and for each number the fewest whole bits that can
# encode 2 · levels + 1 different codes. *About 8 lines in all.*
#
# **By hand**: `[3, −4, 0]`. TernGrad has the scale 4: 3 becomes 1 in three of four draws, −4 is always −1, 0 always 0.
# QSGD with 2 levels has the norm 5 and the heights 1.2, −1.6 and 0: codes 1 or 2, −1 or −2, and 0. Five codes need 3
# bits each: 41 bits with the scale.


# %% exercise="week02.stochastic"
### BEGIN SOLUTION
def rounded(gradient, scale, levels, generator):
    height = gradient.abs() / scale.clamp(min=1e-30) * levels
    codes = gradient.sign() * (height + torch.rand(height.shape, generator=generator)).floor()
    return scale, codes.to(torch.int8)


### END SOLUTION
def terngrad(gradient, *, generator):
    """Return the largest magnitude, and a code -1, 0 or 1 for each number."""
    ### BEGIN SOLUTION
    return rounded(gradient, gradient.abs().max(), 1, generator)
    ### END SOLUTION


def qsgd(gradient, levels, *, generator):
    """Return the Euclidean norm, and a code from -levels to levels for each number."""
    ### BEGIN SOLUTION
    return rounded(gradient, gradient.norm(), levels, generator)
    ### END SOLUTION


def message_bits(num_numbers, levels):
    """Bits of a message: a scale of 32 bits, and one code per number."""
    ### BEGIN SOLUTION
    return 32 + num_numbers * (2 * levels).bit_length()
    ### END SOLUTION


def drawn(method, arguments, num_draws, seed):
    """Given: the scales and codes of many messages from one generator, and of the first once more from a new one."""
    one, again = (torch.Generator().manual_seed(seed) for _ in range(2))
    quantize = {"terngrad": terngrad, "qsgd": qsgd}[method]
    messages = [quantize(*arguments, generator=generator) for generator in [one] * num_draws + [again]]
    scales, codes = zip(*messages, strict=True)
    return [float(scale) for scale in scales], torch.stack([torch.as_tensor(one) for one in codes])


# %% check="week02.stochastic" points=2 optional=true
cases = [{"numbers": 10, "part": "terngrad"}, {"bits": 1000, "levels": 1, "part": "terngrad"}]
cases += [{"numbers": 10, "levels": 4, "part": "qsgd"}, {"numbers": 4, "levels": 7, "zeros": True, "part": "qsgd"}]
cases += [{"bits": 1000, "levels": 7, "part": "qsgd"}]
check("week02.stochastic", drawn, message_bits, cases=cases)

# %% [markdown]
# ### Challenge: a tenth of the bytes, the loss within 1%
#
# Top-k loses the numbers it leaves out. **Error feedback** (误差反馈) adds them to the *next* gradient, chooses from
# that sum, and keeps the rest for the step after. Every number is sent sooner or later.
#
# **`compressed_means(gradients, num_kept, *, group)`**: `gradients` holds this rank's flat fp32 gradient of each
# step, in order. Return the list of means over the group, one per step, where every rank contributes the `num_kept`
# numbers of largest magnitude of *gradient + what it has left out so far*, and zeros elsewhere. Send each other rank
# at most 8 bytes per kept number: an int32 for the position and an fp32 for the value. Leave the inputs unchanged.
# *About 13 lines.*
#
# **By hand**, with the same gradients on both ranks and one number kept. Step 1: from `[3, −2, 1]` each rank sends 3
# and carries over `[0, −2, 1]`; the mean is `[3, 0, 0]`. Step 2: the gradient `[0, −1, 2.5]` plus what was carried
# over is `[0, −3, 3.5]`; 3.5 is sent, −3 waits.


# %% exercise="week02.top-k"
def compressed_means(gradients, num_kept, *, group):
    """Means over the group of what top-k with error feedback sends. Returns a list of flat tensors, one per step."""
    ### BEGIN SOLUTION
    size, means = dist.get_world_size(group), []
    left_out = torch.zeros_like(gradients[0])
    for gradient in gradients:
        whole = gradient + left_out
        places = whole.abs().topk(num_kept).indices.to(torch.int32)
        values = whole[places]
        left_out = whole.index_fill(0, places.long(), 0.0)
        all_places = [torch.empty_like(places) for _ in range(size)]
        all_values = [torch.empty_like(values) for _ in range(size)]
        dist.all_gather(all_places, places, group=group)
        dist.all_gather(all_values, values, group=group)
        total = torch.zeros_like(whole).index_add_(0, torch.cat(all_places), torch.cat(all_values))
        means.append(total / size)
    return means
    ### END SOLUTION


# %% check="week02.top-k" points=3 optional=true
cases = [
    {"ranks": 2, "numbers": 100, "num_kept": 5, "steps": 1, "part": "one step"},
    {"ranks": 4, "numbers": 20, "num_kept": 2, "steps": 5, "subgroup": [1, 3], "part": "error feedback"},
]
check("week02.top-k", compressed_means, cases=cases)

# %% [markdown]
# Now train with it. A linear layer learns 1024 weights from noisy targets; no loss can fall below the noise, 0.25.
# Which rows are within 1% of the first?


# %%
def train(codec, error_feedback, steps=150):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    right, student = torch.randn(32, 32) / 32**0.5, torch.nn.Linear(32, 32, bias=False)
    reduce = None if codec is None else data_parallel.mean_of_messages(codec, error_feedback=error_feedback)
    model, optimizer = data_parallel.DataParallel(student, reduce=reduce), torch.optim.SGD(student.parameters(), lr=1.0)
    torch.manual_seed(1 + dist.get_rank())
    with meter.record() as bill:
        for _ in range(steps):
            optimizer.zero_grad()
            x = torch.randn(64, 32)
            torch.nn.functional.mse_loss(model(x), x @ right.T + torch.randn(64, 32) / 2).backward()
            optimizer.step()
    return (student.weight - right).square().sum().item() / 32 + 0.25, bill.sent_bytes / steps


codecs = {
    "all-reduce": (None, False),
    "top-k 4%, feedback": (data_parallel.TopK(0.04), True),
    "top-k 4%": (data_parallel.TopK(0.04), False),
}
codecs |= {
    "1-bit, feedback": (data_parallel.OneBit(), True),
    "TernGrad": (data_parallel.TernGrad(), False),
    "QSGD": (data_parallel.QSGD(7, 64), False),
}
for name, codec in codecs.items():
    loss, sent = shardlab.run(train, *codec, ranks=2, timeout=60)[0]
    if name == "all-reduce":
        plain_loss, plain_sent = loss, sent
    print(f"{name}: {plain_sent / sent:.1f} times fewer bytes, loss {loss:.4f} ({loss / plain_loss - 1:+.1%})")

# %% [markdown]
# ### Batch size and learning rate
#
# With b rows on each of N ranks, a step processes N · b rows, and an epoch has N times fewer steps. To make the same
# progress, the *linear scaling rule* (线性缩放) multiplies the learning rate by N, after a warm-up (预热).
# **Predict:** half as many steps with twice the batch and twice the learning rate: same loss? For both rates?

# %%
for lr in (0.05, 0.25):
    plans = {"30 steps of 8 rows": (30, 8, lr), "15 of 16": (15, 16, lr), "15 of 16, 2 lr": (15, 16, 2 * lr)}
    ends = {name: shardlab.run(losses, *plan, mean_afterwards, ranks=1)[0][-1] for name, plan in plans.items()}
    print(f"lr {lr}:", ", ".join(f"{name}: {loss:.2f}" for name, loss in ends.items()))

# %% [markdown]
# At the small rate the rule holds. At the large rate the first steps overshoot: use a warm-up. Goyal et al. used this
# rule for batches of up to 8192 images.

# %% [markdown]
# ### More to measure
#
# **What a profiler sees.** torch's profiler records real steps on two ranks: gradients sent after the backward, or in
# buckets as they fill. **Predict for each:** how much of the communication overlaps?


# %%
def profiled(in_buckets):
    torch.set_num_threads(1)
    gpt = shardlab.model.GPT(shardlab.model.GPTConfig(layers=4, hidden=256, heads=8, sequence=64))
    model = data_parallel.DataParallel(gpt, bucket_bytes=2_000_000) if in_buckets else gpt
    rows = torch.randint(gpt.config.vocabulary, (4, 65))

    def step():
        shardlab.model.next_token_loss(model(rows[:, :-1]), rows[:, 1:]).backward()
        for parameter in () if in_buckets else gpt.parameters():
            dist.all_reduce(parameter.grad)

    return meter.trace_of_step(step)


for name, in_buckets in (("After the backward, on this machine", False), ("Buckets, on this machine", True)):
    traces = shardlab.run(profiled, in_buckets, ranks=2, observe=False, timeout=60)
    figure, ax = figures.new_axes(9, 2.2)
    figures.show(figure, figures.draw_profile(ax, traces, name=name))

# %% [markdown]
# None in the first; between a third and most of it in the second, depending on how busy your cores are: Gloo's
# messages need them, too. Here is DDP on one H200, shared by two ranks. **Which bucket cannot be hidden?**

# %%
figure, ax = figures.new_axes(9, 2.6)
figures.show(figure, figures.draw_profile(ax, figures.kept_traces("week02"), name="DDP on one H200"))

# %% [markdown]
# The last: it holds the first layer's gradients, and no backward is left. Rank 1 is ahead and waits inside its
# messages (`docs/profiler.md`).
#
# **Throughput (吞吐量) against the number of ranks**, with four rows per rank. **Predict the curve** for 1, 2 and 4
# ranks. Where does it bend?


# %%
def tokens_per_second(rows=4, sequence=64):
    torch.set_num_threads(1)
    config = shardlab.model.GPTConfig(layers=2, hidden=256, heads=8, sequence=sequence)
    model = data_parallel.DataParallel(shardlab.model.GPT(config))
    tokens = torch.randint(config.vocabulary, (rows, sequence + 1))
    step = lambda: shardlab.model.next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()  # noqa: E731
    seconds = collectives.seconds_of(step, group=dist.group.WORLD, repetitions=5)
    return dist.get_world_size() * rows * sequence / sorted(seconds)[2]  # the middle of five


rates = {num: min(shardlab.run(tokens_per_second, ranks=num, observe=False, timeout=60)) for num in (1, 2, 4)}
figure, ax = figures.new_axes(7, 2.4)
figures.show(figure, figures.draw_throughput(ax, rates))

# %% [markdown]
# At the number of your cores: beyond it ranks take turns. Below it, the gap to the line is communication. (On a busy
# machine the curve may even fall.)
#
# **Which rank reads which rows.** `DistributedSampler` gives rank r the rows r, r + N, r + 2N … of a shuffled order.
# Ten rows cannot be divided evenly among four ranks. **Which row does each rank read last?**

# %%
for rank in range(4):
    sampler = torch.utils.data.DistributedSampler(range(10), num_replicas=4, rank=rank, shuffle=False)
    print(f"rank {rank} reads rows {list(sampler)}")

# %% [markdown]
# Rows 0 and 1 are read twice, so that all ranks take the same number of steps; `drop_last=True` leaves out the tail
# instead. In a shorter last batch each row would count too much, and a rank with one batch fewer leaves the others
# waiting in an all-reduce. Call `sampler.set_epoch(epoch)` before every epoch; otherwise all epochs use the same
# order.
