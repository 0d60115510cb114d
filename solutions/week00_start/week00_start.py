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
# *Core: about 30 minutes · 4 ranks · no GPU needed · ungraded except for one check*
#
# A large model does not fit on one GPU, so it is split over many, and the links between them then decide how fast it
# trains. In this course you write the parts of such a training system, one part per week. Each part runs on **real
# ranks** (进程), and you compare up to three numbers: the **formula**, the **measurement**, and in later weeks the
# **simulation** of a step.
#
# After this page you can
#
# - [ ] **say** what this machine offers: cores, memory, transports (传输方式);
# - [ ] **run** a function from a notebook on four ranks;
# - [ ] **check** an answer, and read the result.

# %%
import shardlab
import torch
import torch.distributed as dist
from shardlab import costs, figures, meter

from autograder import check

# %% [markdown]
# ## 1 · This machine
#
# A *transport* carries messages between ranks. `gloo` needs no GPU; `nccl` gives every rank its own GPU;
# `nccl-shared` puts all ranks on one GPU. Every week runs on `gloo`. Times differ between transports; byte counts do
# not.

# %%
# !shardlab doctor

# %% [markdown]
# ## 2 · Four ranks
#
# A rank (进程序号) is one process of the job. `shardlab.run(function, *args)` starts four ranks (`ranks=4` is the
# default), calls your function on each, and returns the four results in a list. `torch.distributed` is already set up
# inside your function, so a rank can ask for its number.


# %%
def greet(greeting):
    return f"{greeting} from rank {dist.get_rank()} of {dist.get_world_size()}"


shardlab.run(greet, "hello")

# %% [markdown]
# Four processes have four separate memories. If rank 0 changes a list, rank 1 does not see the change. A rank only
# knows about another rank what was **sent** to it, and this course counts what is sent.
#
# Sooner or later every distributed program fails. Here, when one rank fails, the call ends at once and reports what
# each rank was doing:


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
# Every rank calls an all-reduce (全归约). It adds up the ranks' tensors, and afterwards each rank holds the sum.
# `dist.all_reduce(tensor, group=group)` works *in place*. A group (进程组) is the set of ranks that take part. It need
# not contain every rank: ranks 1 and 3 of four can form a group, and then only these two call your function.
#
# **By hand**, two ranks with two numbers each:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | before | `[1, 2]` | `[10, 20]` |
# | after | `[11, 22]` | `[11, 22]` |
#
# **`total_of(tensor, *, group)`** returns the sum over the group as a new tensor and leaves the caller's tensor
# unchanged, so copy it first (`tensor.clone()`). *About 3 lines.* Replace the line that raises `NotImplementedError`
# with your answer, run the cell, then run the check below it.


# %% exercise="week00.first-all-reduce"
def total_of(tensor, *, group):
    """Sum a tensor over all ranks of the group. Returns a new tensor."""
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
# A check runs your answer on real ranks. Besides the result, it checks what was sent and whether your input is
# unchanged.
#
# > **Fresh cases.** You can see the cases of a check. Grading adds new cases of the same kinds. This week they vary
# > the numbers, how many there are, the number of ranks, and the group. Every week has a box like this.
#
# ## 4 · Compare the formula with a measurement
#
# In a ring all-reduce of S bytes, each of N ranks sends 2(N−1)/N · S bytes. You will build one in week 1. For 2 ranks
# and 4 numbers of 4 bytes that is 2 · 1/2 · 16 = 16 bytes. First count the bytes of such a ring of two, written with
# plain messages. Each rank is responsible for one half. It sends the other half to its partner, adds the half it
# receives, and sends the sum back. The meter counts every byte of a `send`.


# %%
def exchange(tensor):
    """Send `tensor` to the other of two ranks, and return the tensor received from it."""
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
# The meter cannot look inside `dist.all_reduce`. It sees the tensor, and *books* the bytes that a ring would send.
# **Predict:** how many bytes does it book for 1000 numbers on two, three, and four ranks?


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
# From two to four ranks the bytes per rank grow, but they never reach twice the size of the tensor (the dashed line).
#
# > **What is counted.** The meter counts your own messages byte by byte. It books a library collective as if it were
# > a ring, so that number does not test the formula. In week 1 you write the ring yourself, for any number of ranks,
# > and that does test it.
#
# ## 5 · How every week goes
#
# Each week starts with a problem in numbers and a picture. Then come rounds of *predict, write, check*, a measurement
# on real ranks, real code to read, a challenge with a target, and an interview question. It takes two to three hours.
# An exercise is a **warm-up**, **core**, a **hunt** (for a bug or a hang), a **challenge** or an **interview**
# answer. Hints are folded; open them one at a time.
#
# The package is meant to be read: `labs/shardlab/` contains an implementation of everything that you build. Write
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
