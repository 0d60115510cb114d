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
# # Prerequisites: what this course takes for granted
#
# *Core: about 90 minutes · 1 to 4 ranks · no GPU needed*
#
# **Skip this page if you can do these three.** Answer before you unfold.
#
# <details><summary>You call `backward()` on two losses that use the same weight. What is in `weight.grad`?</summary>
#
# The sum of both gradients. `backward()` adds to `.grad`; it does not overwrite it.
# </details>
#
# <details><summary>What is 256 + 1 in bfloat16?</summary>
#
# 256. A bfloat16 number has 7 bits of fraction, so above 256 it can hold only every second whole number.
# </details>
#
# <details><summary>Four processes call `dist.new_group([0, 2])`. Ranks 1 and 3 are not in the group. May they skip the
# call?</summary>
#
# No. Every rank must make every group, in the same order, or the others wait.
# </details>
#
# After this page you can
#
# - [ ] **write** a forward and a backward, and say when each gradient is complete;
# - [ ] **predict** what a sum loses in bfloat16, and write attention with einsum;
# - [ ] **run** processes that form groups, and say what they share.
#
# Each of the eight checks is small, and a wrong answer gets a hint. If one still takes more than fifteen minutes,
# move on.

# %%
import torch
import torch.distributed as dist
from shardlab import run

from autograder import check

# %% [markdown]
# ## 1 · A backward of your own
#
# Most weeks write layers that communicate, and a layer that communicates needs its own backward. PyTorch calls it an
# **autograd Function** (自定义求导函数). `forward` computes the output and saves what `backward` will need. `backward`
# receives the gradient of the loss for the *output* and returns the gradient for the *input*.
#
# **By hand:** y = x³ at x = 2 has the slope 3x² = 12. If the loss changes by 5 for each unit of y, it changes by
# 5 · 12 = 60 for each unit of x. So `backward` gets 5 and returns 60.
#
# Complete `Cube.backward`. *About 2 lines.*


# %% exercise="prerequisites.cube"
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(context, gradient):
        ### BEGIN SOLUTION
        (x,) = context.saved_tensors
        return 3 * x**2 * gradient
        ### END SOLUTION


def cube_and_gradient(x, upstream):
    """The cube, and the gradient of x if `upstream` is the gradient of the cube."""
    x = x.clone().requires_grad_()
    cube = Cube.apply(x)
    cube.backward(upstream)
    return cube.detach(), x.grad


# %% check="prerequisites.cube" points=1
check("prerequisites.cube", cube_and_gradient, cases=[{"numbers": 1}, {"numbers": 5}])

# %% [markdown]
# ## 2 · Gradients add up
#
# A large batch often does not fit, so it is cut into **microbatches** (微批次). Each has its own forward and backward,
# and their gradients add up in `.grad`.
#
# **By hand:** the losses of two microbatches are 3w and 5w. Their mean is 4w, with the gradient 4. Two backwards of
# 3w and 5w leave 3 + 5 = 8 in `.grad`: twice too much. If each loss is divided by 2 first, the result is 4.
#
# **`accumulated_gradient(weight, batches)`** returns the gradient of the mean loss over all rows of all microbatches,
# which have equally many rows. The loss of one microbatch `x` is `(x @ weight).square().mean()`. Call `backward` once
# per microbatch. *About 3 lines.*


# %% exercise="prerequisites.accumulate"
def accumulated_gradient(weight, batches):
    """The gradient of the mean loss over microbatches. Returns a tensor of the weight's shape."""
    leaf = weight.clone().requires_grad_()
    ### BEGIN SOLUTION
    for x in batches:
        ((x @ leaf).square().mean() / len(batches)).backward()
    return leaf.grad
    ### END SOLUTION


# %% check="prerequisites.accumulate" points=1
check("prerequisites.accumulate", accumulated_gradient, cases=[{"microbatches": 1}, {"microbatches": 4}])

# %% [markdown]
# ## 3 · When is a gradient complete?
#
# Data parallelism sends a gradient as soon as it is complete, while the backward is still running. A **hook** (钩子) is
# a function that PyTorch calls at that moment: `leaf.register_post_accumulate_grad_hook(function)` calls
# `function(leaf)` once the backward has added the last part to `leaf.grad`.
#
# **By hand:** the forward uses weight 0, then 1, then 0 again. The backward goes through the uses in reverse order:
# 0, 1, 0. After its first step weight 0 has only one of its two parts. Weight 1 is complete first.
#
# **`ready_order(weights, order, x)`** multiplies `x` by `weights[number]` for each number in `order`, and returns the
# numbers in the order in which their gradients are complete. Write the lines that register the hooks. (A lambda in a
# loop sees the loop's last value, unless a default argument binds the value.)


# %% exercise="prerequisites.ready-order"
def ready_order(weights, order, x):
    """The numbers of the used weights, in the order in which their gradients are complete. Returns a list."""
    ready, leaves = [], [weight.clone().requires_grad_() for weight in weights]
    ### BEGIN SOLUTION
    for number, leaf in enumerate(leaves):
        leaf.register_post_accumulate_grad_hook(lambda _, number=number: ready.append(number))
    ### END SOLUTION
    for number in order:
        x = x @ leaves[number]
    x.sum().backward()
    return ready


# %% check="prerequisites.ready-order" points=1
check("prerequisites.ready-order", ready_order, cases=[{"order": [0, 1, 2]}, {"order": [1, 0, 1], "unused": 1}])

# %% [markdown]
# ## 4 · What bfloat16 loses
#
# Large models train in **bfloat16** (脑浮点): one sign bit, 8 bits of exponent, 7 bits of fraction. It has the range of
# float32, but few digits. **How far can you count in it by adding 1?** Guess, then run the cell.

# %%
for dtype in (torch.bfloat16, torch.float16):
    count = torch.zeros((), dtype=dtype)
    while count + 1 > count:
        count += 1
    print(f"{dtype}: 0 + 1 + 1 + … stops at {count.item():.0f}")

# %% [markdown]
# **By hand**, with 2 bits of fraction: between 4 and 8 there are 2² = 4 numbers, 4, 5, 6, 7. Between 8 and 16 there
# are again 4: 8, 10, 12, 14. So 8 + 1 = 9 does not exist. It is halfway between 8 and 10, and such a tie goes to the
# number whose last bit is 0: 8.
#
# **`first_lost(fraction_bits)`** returns the smallest positive n for which n + 1 is rounded back to n.


# %% exercise="prerequisites.first-lost"
def first_lost(fraction_bits):
    """The smallest positive whole number n with n + 1 == n in a float with this many bits of fraction."""
    ### BEGIN SOLUTION
    return 2 ** (fraction_bits + 1)
    ### END SOLUTION


# %% check="prerequisites.first-lost" points=1
check("prerequisites.first-lost", first_lost, cases=[{"fraction_bits": 7}, {"fraction_bits": 10}])

# %% [markdown]
# A gradient is a sum over many ranks or microbatches. If every partial sum is rounded to bfloat16, small parts
# disappear: 256 + 1 + 1 + 1 stays 256. The remedy is to **accumulate in float32** (用单精度累加) and to round once.
#
# **`add_all(parts)`** returns the sum of a list of bfloat16 tensors, in bfloat16, rounded once. *About 2 lines.*


# %% exercise="prerequisites.add-all"
def add_all(parts):
    """Add bfloat16 tensors of one shape, and round once. Returns a bfloat16 tensor."""
    ### BEGIN SOLUTION
    total = torch.stack([part.float() for part in parts]).sum(0)
    return total.bfloat16()
    ### END SOLUTION


# %% check="prerequisites.add-all" points=1
check("prerequisites.add-all", add_all, cases=[{"tensors": 3}, {"tensors": 40}])

# %% [markdown]
# ## 5 · Sums by letters
#
# **einsum** (爱因斯坦求和) names each dimension of its inputs with a letter. A letter that is missing in the output is
# summed over. `torch.einsum("ik,kj->ij", a, b)` is a matrix product.
#
# **By hand:** `"bqhd,bkhd->bhqk"` keeps b, h, q and k, and sums over d: for each sequence b and head h, the dot
# product of query q with key k. Those are the scores of attention (注意力).
#
# **`attention(q, k, v)`**: `q` is `[batch, queries, heads, width]`; `k` and `v` are `[batch, keys, heads, width]`.
# Divide the scores by the square root of the width, apply a softmax over the keys, and average the values with these
# weights. Return `[batch, queries, heads, width]`. *About 3 lines, two of them einsum.*


# %% exercise="prerequisites.attention"
def attention(q, k, v):
    """Softmax attention without a mask. Returns a tensor of q's shape."""
    ### BEGIN SOLUTION
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
    ### END SOLUTION


# %% check="prerequisites.attention" points=1
check(
    "prerequisites.attention",
    attention,
    cases=[
        {"batch": 1, "queries": 2, "keys": 2, "heads": 1, "width": 4},
        {"batch": 2, "queries": 3, "keys": 5, "heads": 2, "width": 4},
    ],
)

# %% [markdown]
# ## 6 · Processes have separate memories
#
# A rank (进程序号) is a process. Every call of `run(function, ranks=4)` starts four new processes with copies of the
# notebook's variables, calls the function in each, and returns a list of four results. **Before you run the last
# cell**, fill in three numbers: what rank 2 returns, what `counter[0]` is in the notebook afterwards, and what rank 2
# returns in a second call.

# %%
counter = [0]


def count():
    counter[0] += 100 + dist.get_rank()
    return counter[0]


# %% exercise="prerequisites.own-memory"
reading_answers = {"returned by rank 2": None, "notebook afterwards": None, "returned by rank 2, second call": None}
### BEGIN SOLUTION
reading_answers["returned by rank 2"] = 102
reading_answers["notebook afterwards"] = 0
reading_answers["returned by rank 2, second call"] = 102
### END SOLUTION

# %% check="prerequisites.own-memory" points=1
check("prerequisites.own-memory", reading_answers)

# %%
print(run(count, ranks=4), counter[0], run(count, ranks=4)[2])

# %% [markdown]
# ## 7 · Groups
#
# A **process group** (进程组) is a set of ranks that communicate with each other. `dist.new_group([0, 2])` makes one.
# *All* ranks must call it, also those outside, and all in the same order. Afterwards only members use the group:
# `dist.all_reduce(tensor, group=group)` replaces a tensor by the sum over the members.
#
# **By hand:** four ranks hold 1, 10, 100, 1000. The even ranks 0 and 2 get 101, the odd ranks 1 and 3 get 1010.
#
# **`sum_over_parity(tensor)`** returns the sum over all ranks that are even, or odd, like the caller. It works for
# two or more ranks. Leave the caller's tensor as it is. *About 4 lines.*


# %% exercise="prerequisites.two-groups"
def sum_over_parity(tensor):
    """Sum over the even ranks on even ranks, and over the odd ranks on odd ranks. Returns a new tensor."""
    ### BEGIN SOLUTION
    size = dist.get_world_size()
    groups = [dist.new_group(list(range(first, size, 2))) for first in range(min(2, size))]
    total = tensor.clone()
    dist.all_reduce(total, group=groups[dist.get_rank() % 2])
    return total
    ### END SOLUTION


# %% check="prerequisites.two-groups" points=1
check("prerequisites.two-groups", sum_over_parity, cases=[{"ranks": 2}, {"ranks": 4}])

# %% [markdown]
# ## Take away
#
# - `backward` turns the output's gradient into the input's. Gradients add up in `.grad`; a hook says when one is done.
# - Sums of bfloat16 numbers are kept in float32 and rounded once.
# - Processes share nothing that was not sent, and every rank makes every group in the same order.
#
# **Where to read more:** [extending autograd](https://docs.pytorch.org/docs/stable/notes/extending.html),
# [numerical accuracy](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html),
# [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html).
#
# **Next:** `week00_start`.
