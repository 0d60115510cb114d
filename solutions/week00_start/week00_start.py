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
# # Start here · SYS-602, distributed training and hybrid parallelism (混合并行)
#
# *20 minutes · 4 ranks · no GPU needed · ungraded but for one check*
#
# A large model does not fit on one GPU, so it is split over many, and then the links between them decide how fast it
# trains. In this course you write the pieces of such a training system, one per week. Each piece runs on **real ranks**
# (进程), and three numbers are compared: the **formula**, the **simulation** where there is one, and the
# **measurement**.
#
# After this page you can
#
# - [ ] **say** what this machine offers: cores, memory, transports (传输方式);
# - [ ] **run** a function of a notebook on four ranks;
# - [ ] **check** an answer, and read what the check says.

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import costs, figures, meter

from autograder import check

# %% [markdown]
# ## 1 · This machine
#
# A *transport* carries messages from rank to rank. `gloo` needs no GPU; `nccl` gives every rank a GPU of its own;
# `nccl-shared` puts all ranks on one. Every week runs on `gloo`; seconds differ between transports, bytes do not.

# %%
# !shardlab doctor

# %% [markdown]
# ## 2 · Four ranks
#
# A rank (进程序号) is one process of the job. `shardlab.run(function, *args, ranks=4)` starts four, calls your function
# on each and returns the four results in a list. Inside, `torch.distributed` is ready: a rank asks for its number.


# %%
def greet(greeting):
    return f"{greeting} from rank {dist.get_rank()} of {dist.get_world_size()}"


shardlab.run(greet, "hello")

# %% [markdown]
# Four processes, four memories. A list that rank 0 changes stays as it was on rank 1. All that one rank knows of
# another was **sent** to it, and what is sent is what this course counts.
#
# Sooner or later every distributed program fails. Here a rank that fails ends the call at once, with a report by rank:


# %%
def divide_by_rank():
    return 1 / dist.get_rank()


try:
    shardlab.run(divide_by_rank, ranks=2)
except shardlab.RanksFailed as report:
    print(report)

# %% [markdown]
# ## 3 · The first all-reduce, and the first check
#
# An all-reduce (全归约) is called by every rank and adds up their tensors; afterwards each holds the sum.
# `dist.all_reduce(tensor, group=group)` works *in place*. A group (进程组) is the set of ranks that take part, perhaps
# only some of all, such as ranks 1 and 3 of four.
#
# **By hand**, two ranks with two numbers each:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | before | `[1, 2]` | `[10, 20]` |
# | after | `[11, 22]` | `[11, 22]` |
#
# **`total_of(tensor, *, group)`** returns the sum over the group as a new tensor and leaves the caller's tensor as it
# was: so copy it first (`tensor.clone()`). *About 3 lines.* Replace the line that raises `NotImplementedError` with
# your answer, run the cell, then run the check below it.


# %% exercise="week00.first-all-reduce"
def total_of(tensor, *, group):
    """Sum a tensor over all ranks of the group; returns a new tensor."""
    ### BEGIN SOLUTION
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total
    ### END SOLUTION


# %% check="week00.first-all-reduce" points=1
check(
    "week00.first-all-reduce",
    total_of,
    cases=[{"ranks": 2, "numbers": 4}, {"ranks": 4, "numbers": 7, "subgroup": [1, 3]}],
)

# %% [markdown]
# A check runs your answer on real ranks and looks at more than the result: what was sent, and whether your input is
# unchanged.
#
# > **Fresh cases.** The check shows its cases; the grade adds fresh ones of the same kinds. This week they vary the
# > numbers, how many there are, the number of ranks, and the group. Every week has such a box.
#
# ## 4 · The formula beside the measurement
#
# In a ring, an all-reduce of a tensor of S bytes makes each of N ranks send 2(N−1)/N · S bytes; you will build it in
# week 1. For 2 ranks and 4 numbers of 4 bytes that is 2 · 1/2 · 16 = 16 bytes. First we count: two ranks add up four
# numbers with plain messages. Each is responsible for one half. It sends the other half away, adds what it gets,
# and sends the sum back. The meter counts every byte of a `send`.


# %%
def exchange(tensor):
    """Send `tensor` to the other of two ranks, and return the tensor that it sends."""
    received, sending = torch.empty_like(tensor), dist.isend(tensor, 1 - dist.get_rank())
    dist.recv(received, 1 - dist.get_rank())
    sending.wait()
    return received


def by_hand(num_elements):
    halves = torch.ones(num_elements).chunk(2)
    mine, other = halves[dist.get_rank()], halves[1 - dist.get_rank()]
    with meter.record() as bill:
        total = mine + exchange(other)
        rest = exchange(total)
    return total.tolist() + rest.tolist(), bill.sent_bytes


total, sent = shardlab.run(by_hand, 4, ranks=2)[0]
print(f"{total}: {sent:g} bytes sent, the formula says {costs.traffic.ring_all_reduce_bytes(2, 4 * 4):g}")

# %% [markdown]
# Into `dist.all_reduce` the meter cannot look. It sees the tensor, and *books* what a ring would send. **Predict:** how
# many bytes does it book for 1000 numbers on two, three, four ranks?


# %%
def bill_of_all_reduce(num_elements):
    with meter.record() as bill:
        dist.all_reduce(torch.ones(num_elements))
    return bill.sent_bytes


bars = {}
for num_ranks in (2, 3, 4):
    booked = shardlab.run(bill_of_all_reduce, 1000, ranks=num_ranks)
    bars[f"{num_ranks} ranks"] = booked[0]
    print(f"{num_ranks} ranks: booked on each rank {[round(sent, 1) for sent in booked]}")

# %%
figure, ax = figures.new_axes(7, 2)
figures.show(figure, figures.draw_bars(ax, bars, title="All-reduce of 4 KB: bytes that one rank sends", limit=8000))

# %% [markdown]
# From two to four ranks the bytes of one rank grow, but they never reach twice the tensor (the dashed line).
#
# > **What is counted.** The meter counts your own messages byte by byte. It books a collective of the library as a
# > ring, which does not test the formula. In week 1 you write the ring for any number of ranks, and that does.
#
# ## 5 · How every week goes
#
# A problem in numbers, a picture, then rounds of *predict, write, check*; a measurement on real ranks; real code to
# read; a challenge with a target; an interview question. Two to three hours. An exercise is a **warm-up**, **core**,
# a **hunt** (for a bug or a hang), a **challenge** or an **interview** answer. Hints are folded; open them one at a
# time.
#
# The package is written to be read: `labs/shardlab/` holds an implementation of everything that you build. Write
# yours first, then compare.
#
# | weeks | topic | done |
# |---|---|---|
# | 1–2 | collectives 集合通信, data parallelism 数据并行 and DDP | ⬜ |
# | 3–4 | ZeRO 零冗余优化 and FSDP | ⬜ |
# | 5–6 | tensor parallelism 张量并行 and sequence parallelism 序列并行 | ⬜ |
# | 7–8 | pipeline parallelism 流水线并行, zero bubble | ⬜ |
# | 9–10 | hybrid parallelism 混合并行 and planning | ⬜ |
# | 11–12 | mixture of experts 混合专家 and expert parallelism 专家并行 | ⬜ |
# | 13–14 | DualPipe, long context 长上下文 | ⬜ |
# | 15–16 | capstone 综合项目 | ⬜ |
#
# **Next:** `week01_collectives`.
