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
# # Week 7 · Pipeline parallelism (流水线并行): a model too deep for one GPU
#
# *Core: about 180 minutes; optional: about 30 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** GPipe and 1F1B as data, and run them on real ranks;
# - [ ] **predict** the bubble and the memory of a schedule, and measure both;
# - [ ] **find** a gradient that is M times too large although the loss is right.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does the backward of a layer need?</summary>
#
# The gradient of its output, from the next layer, and its own input, from the forward pass. So a layer keeps its
# activations (激活) until its backward.
# </details>
#
# <details><summary>You add up the gradients of four quarters of a batch. Is the sum the batch's gradient?</summary>
#
# Yes if the loss is a sum over samples. No if it is a mean: the sum of four means is four times the mean.
# </details>
#
# <details><summary>When does a blocking send return?</summary>
#
# When the other side receives (week 1). Never rely on buffering.
# </details>

# %%
import shardlab
import torch
from shardlab import costs, figures, meter, pipeline_parallel
from shardlab.pipeline_parallel import builders, parse_schedule, peak_activations, run_emulated, simulate

from autograder import check

dist, mse_loss = torch.distributed, torch.nn.functional.mse_loss

# %% [markdown]
# ## 1 · The problem in numbers
#
# GPT-3 has 96 layers and needs more than one server of eight GPUs. Tensor parallelism (week 5) over two servers
# splits every layer and all-reduces four activations per layer, over the slow link. Alternatively, the first server
# takes layers 0 to 47 and the second the rest: one activation crosses, and its gradient comes back. Guess the ratio,
# then run.

# %%
gpt3 = costs.find_model("gpt3-175b")
activation = costs.activation_bytes_of(gpt3, costs.Layout())
tensor = 4 * gpt3.layers * costs.ring_all_reduce_bytes(16, activation)
pipeline = 2 * costs.pp_boundary_bytes(gpt3, costs.Layout(pp=2))
print(f"one activation: {activation / 1e6:.1f} MB; {tensor / pipeline:.0f} times the bytes")

bars = {"tensor parallel over 16 ranks: each sends": tensor, "two stages: out and back": pipeline}
figure, ax = figures.new_axes(7, 1.8)
figures.show(figure, figures.draw_bars(ax, bars, title="A microbatch crosses a stage boundary at almost no cost"))

# %% [markdown]
# Bytes are cheap here. The cost is waiting: a stage (流水段) is idle until its input arrives.
#
# ### Warm-up: the bubble
#
# Cut the batch into M microbatches (微批次) and let them follow each other through P equal stages. A *unit* is the work
# of one microbatch in one stage, forward and backward together. Rank P−1 starts P−1 forwards late and finishes P−1
# backwards before the step ends. Rank 0 starts and ends with the step, but waits P−1 units in between. Every other rank
# waits the same time, partly at the ends and partly in between. This idle time is the bubble (气泡): P−1 units in a
# step of M + P − 1.
#
# **By hand**, two stages:
#
# | M | order of events | step | a rank works | idle of the step | idle of the work | one GPU alone | speed-up |
# |---|---|---|---|---|---|---|---|
# | 1 | rank 0 forward, rank 1 forward and backward, rank 0 backward | 2 units | 1 | 1/2 | 1 | 2 units | 1 |
# | 2 | the second microbatch follows one unit later | 3 units | 2 | 1/3 | 1/2 | 4 units | 4/3 |
#
# **`bubble_and_speedup(num_ranks, num_microbatches)`** returns three numbers. *About 2 lines.*
#
# 1. The fraction of a step that a rank is idle.
# 2. The same idle time as a fraction of the time that the rank *works*, as PTD-P counts it (arXiv 2104.04473, section
#    2.2).
# 3. The speed-up over *one* GPU that processes the whole batch alone, as in GPipe's table 2 (arXiv 1811.06965).
#
# > **A correction.** Lecture notes (ours included) say that the bubble of two stages at M = 4 "costs 20% against a
# > single GPU". It costs 20% of **two** GPUs: both are used at M/(M+P−1) = 80%, and the step is 1.6 times as fast as
# > on one GPU. Your third number shows this.
#
# > **What the grade varies.** Grading uses other cases than the checks: other sizes, dtypes and numbers of ranks and
# > microbatches (also one, and fewer microbatches than ranks), and groups such as ranks 1 and 3 of five.


# %% exercise="week07.bubble"
def bubble_and_speedup(num_ranks, num_microbatches):
    """(idle / step, idle / working time, speed-up over one GPU with the same batch) of P equal stages."""
    ### BEGIN SOLUTION
    idle, units = num_ranks - 1, num_microbatches + num_ranks - 1
    return idle / units, idle / num_microbatches, num_microbatches * num_ranks / units
    ### END SOLUTION


# %% check="week07.bubble" points=1
cases = [{"num_ranks": p, "num_microbatches": m} for p, m in [(2, 1), (2, 4), (4, 8)]]
check("week07.bubble", bubble_and_speedup, cases=cases)

# %% [markdown]
# Two results of these papers, by your formulas. GPipe's Transformer on K = 8 partitions with M = 32 runs 6.3 times as
# fast, and the paper calls the bubble negligible from M = 4K on. PTD-P's section 3.3 splits n GPUs into d replicas of
# n/d stages and prints (n−d)/(B/b) for the bubble of B/b microbatches in all. **Predict: is 4K enough for 10%?**

# %%
idle, _, times = bubble_and_speedup(8, 32)
print(f"GPipe, K = 8, M = 4K: still {idle:.0%} idle; at most {times:.2f} times as fast, and it measured 6.3")
for d in (1, 2, 4, 8, 16):
    _, share, _ = bubble_and_speedup(32 // d, 128 // d)
    print(f"PTD-P, n = 32, B/b = 128, d = {d}: {share:.3f}, by its formula {(32 - d) / 128:.3f}")

# %% [markdown]
# ## 2 · The picture first
#
# Two ranks, each with half of the layers. Blue is a forward; a backward takes twice as long and is drawn as two
# boxes, the gradients of its input and of its weights. Gray is the bubble. Its *length* is the same in all three
# timelines, but its share shrinks.

# %%
by_hand = parse_schedule([["0F0", "0B0"], ["1F0", "1B0"]])
schedules = [by_hand, builders.gpipe(2, 4), builders.gpipe(2, 8)]
figure, axes = figures.new_rows(7, 3.8, 3)
figures.show(figure, figures.draw_timelines(axes, [("GPipe", schedule) for schedule in schedules]))

# %% [markdown]
# ## 3 · Notation
#
# - **P** ranks, one stage each; **M** microbatches. Papers write p and m.
# - **`1F3`**: microbatch 3 forward in stage 1; **`1B3`** its backward. This is torch's grammar too.
# - A **schedule** (调度) is data: each rank's list of such strings, in order.
#   `[["0F0", "0B0"], ["1F0", "1B0"]]` is a whole step of two ranks.
# - **`W[L_P, I, J]`**: layers are split over the pipeline axis. A rank never sees the layers that it does not hold.
#
# You write the order once, and the same value is checked, drawn, simulated and executed.
#
# ## 4 · Cut the model into stages
#
# The slowest stage sets the pace for all, so split by seconds, not by number of layers. **`split_stages(seconds,
# num_stages)`** takes the cost of each layer as integers and returns the number of layers per stage. Layers stay in
# order, each stage gets at least one, and the slowest stage is as fast as possible. *About 10 lines.*
#
# **By hand:** layers of 3, 1, 1 and 1 seconds in two stages. Two layers each, `[2, 2]`, makes stages of 4 and 2
# seconds: every microbatch waits for the slower stage. `[1, 3]` makes 3 and 3. Nothing is faster, because the first
# layer alone takes 3. If several answers are equally fast, any of them is right.
#
# <details><summary>Hint 1: ask a simpler question</summary>
#
# Is there a split in which no stage takes longer than a given limit? Fill one stage after another to find out. Then try
# increasing limits.
# </details>
#
# <details><summary>Hint 2: one line missing</summary>
#
# ```python
# for limit in range(max(seconds), sum(seconds) + 1):
#     sizes, place = [], 0
#     for stages_left in reversed(range(num_stages)):
#         size = 1
#         while ...:  # the next layer fits, and a layer remains for each later stage
#             size += 1
#         sizes.append(size)
#         place += size
#     if place == len(seconds):
#         return sizes
# ```
# </details>


# %% exercise="week07.split-stages"
def split_stages(seconds, num_stages):
    """Number of layers per stage such that the slowest stage is as fast as possible. seconds: an integer per layer."""
    ### BEGIN SOLUTION
    for limit in range(max(seconds), sum(seconds) + 1):
        sizes, place = [], 0
        for stages_left in reversed(range(num_stages)):
            size = 1
            while place + size < len(seconds) - stages_left and sum(seconds[place : place + size + 1]) <= limit:
                size += 1
            sizes.append(size)
            place += size
        if place == len(seconds):
            return sizes
    ### END SOLUTION


# %% check="week07.split-stages" points=2
gpt2 = costs.find_model("gpt2")
layer = costs.layer_matmul_flops(gpt2) + costs.attention_core_flops(gpt2)
tenths = round(10 * costs.output_flops(gpt2) / layer)
print(f"GPT-2's output layer costs as much as {tenths / 10} of its 12 layers")
to_cut = [([1] * 4, 2), ([1] * 6 + [4], 3), ([5, 1, 1, 1, 1, 5], 4), ([1, 1, 4, 1, 1, 1, 1], 4)]
to_cut.append(([10] * 12 + [tenths], 4))
cases = [{"seconds": seconds, "num_stages": num} for seconds, num in to_cut]
check("week07.split-stages", split_stages, cases=cases)

# %% [markdown]
# ## 5 · Talking to both neighbors
#
# In the middle of a step, a rank sends an activation to the next rank while a gradient comes back from it. In the code
# below, every rank sends first and receives second. **Which rank finishes? Commit to an answer, then run.**


# %%
def everybody_sends_first(activation, gradient):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    if rank < last:
        dist.send(activation, group_dst=rank + 1)
    if rank > 0:
        dist.send(gradient, group_dst=rank - 1)
    # ... only after this would a rank receive


try:
    shardlab.run(everybody_sends_first, torch.ones(4), torch.ones(4), ranks=3, timeout=5)
except shardlab.RanksFailed as report:
    print(report)

# %% [markdown]
# None of them. Two neighbors that both send wait for each other, and every rank of a pipeline has a neighbor.
#
# ### Hang hunt: `exchange_with_neighbours`
#
# **`exchange_with_neighbours(activation, gradient, *, group)`** sends `activation` to rank+1 and `gradient` to rank−1,
# and returns what it receives: `(activation from rank−1, gradient from rank+1)`. All have the same shape and dtype.
# Rank 0 has no previous rank, so its `gradient` and the first value it returns are None. The last rank has no next
# rank, so its `activation` and the second value it returns are None. Use only sends and receives, one message to each
# neighbor, and do not modify the inputs. *About 12 lines.*
#
# **By hand**, three ranks, one number each:
#
# | | rank 0 | rank 1 | rank 2 |
# |---|---|---|---|
# | `activation`, for rank+1 | 10 | 11 | None |
# | `gradient`, for rank−1 | None | 21 | 22 |
# | returns | (None, 21) | (10, 22) | (11, None) |
#
# `dist.isend(tensor, group_dst=…, group=group)` and `dist.irecv(buffer, group_src=…, group=group)` start a message and
# return immediately; call `.wait()` on the result to finish it. Ranks are relative to the group. The buffer is an empty
# tensor of the right shape: `torch.empty_like`.


# %% exercise="week07.neighbours"
def exchange_with_neighbours(activation, gradient, *, group):
    """Send the activation to rank+1 and the gradient to rank-1; return (tensor from rank-1, tensor from rank+1)."""
    ### BEGIN SOLUTION
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    before = None if rank == 0 else torch.empty_like(gradient)
    behind = None if rank == last else torch.empty_like(activation)
    works = []
    for peer, sent, received in ((rank + 1, activation, behind), (rank - 1, gradient, before)):
        if received is not None:
            works.append(dist.isend(sent, group_dst=peer, group=group))
            works.append(dist.irecv(received, group_src=peer, group=group))
    for work in works:
        work.wait()
    return before, behind
    ### END SOLUTION


# %% check="week07.neighbours" points=2
two, half = {"ranks": 2, "numbers": 4}, {"ranks": 4, "numbers": 1024, "dtype": "bfloat16"}
part_of_the_world = {"ranks": 5, "numbers": 6, "subgroup": [1, 3]}
check("week07.neighbours", exchange_with_neighbours, cases=[two, half, part_of_the_world])

# %% [markdown]
# ## 6 · GPipe
#
# All forwards, then all backwards. **`gpipe(num_ranks, num_microbatches)`** returns the schedule: one list of strings
# per rank, where rank r runs stage r. *About 4 lines.* The check parses your strings, tests that the step can run, and
# simulates its timing.
#
# **By hand**, two ranks and two microbatches: rank 0 has `["0F0", "0F1", "0B0", "0B1"]`, and rank 1 has the same for
# stage 1, `["1F0", "1F1", "1B0", "1B1"]`.


# %% exercise="week07.gpipe"
def gpipe(num_ranks, num_microbatches):
    """GPipe as data: one list per rank, of strings such as "1F3" (stage, letter, microbatch)."""
    ### BEGIN SOLUTION
    return [[f"{rank}{kind}{m}" for kind in "FB" for m in range(num_microbatches)] for rank in range(num_ranks)]
    ### END SOLUTION


# %% check="week07.gpipe" points=2
cases = [{"num_ranks": 2, "num_microbatches": 4}, {"num_ranks": 4, "num_microbatches": 8}]
check("week07.gpipe", gpipe, cases=cases)

# %% [markdown]
# ## 7 · 1F1B: the same bubble, a fraction of the memory
#
# In the GPipe that you wrote, every rank holds the activations of all M microbatches. But the last rank could run the
# backward of a microbatch right after its forward. In **1F1B**, rank r warms up with P−1−r forwards, then alternates
# one forward and one backward, and ends with the remaining backwards.
#
# **By hand**, two ranks and three microbatches. Rank 0 warms up with one forward, rank 1 with none:
#
# | | warm-up | one forward, one backward | remaining | holds at most |
# |---|---|---|---|---|
# | rank 0 | `0F0` | `0F1 0B0 0F2 0B1` | `0B2` | 2 |
# | rank 1 | | `1F0 1B0 1F1 1B1 1F2 1B2` | | 1 |
#
# **Predict first:** how many activations does rank r hold at most? And does the bubble shrink?
#
# **`one_f_one_b(num_ranks, num_microbatches)`** returns the schedule. It must also work for fewer microbatches than
# ranks. *About 8 lines.*


# %% exercise="week07.one-f-one-b"
def one_f_one_b(num_ranks, num_microbatches):
    """1F1B as data, in the order of the paper (2104.04473, upper half of figure 4)."""
    ### BEGIN SOLUTION
    schedule = []
    for rank, forwards in enumerate(gpipe(num_ranks, num_microbatches)):
        backwards = forwards[num_microbatches:]
        warm = min(num_ranks - 1 - rank, num_microbatches)
        steady = zip(forwards[warm:num_microbatches], backwards, strict=False)
        pairs = [slot for pair in steady for slot in pair]
        schedule.append(forwards[:warm] + pairs + backwards[num_microbatches - warm :])
    return schedule
    ### END SOLUTION


# %% check="week07.one-f-one-b" points=3
full, short = "as many microbatches as ranks", "fewer microbatches than ranks"
sizes = [(2, 4, full), (4, 8, full), (4, 2, short)]
cases = [{"num_ranks": p, "num_microbatches": m, "part": part} for p, m, part in sizes]
check("week07.one-f-one-b", one_f_one_b, cases=cases)

# %%
rows = [("GPipe", builders.gpipe(4, 8)), ("1F1B", builders.one_f_one_b(4, 8))]
for name, schedule in rows:
    timeline = simulate(schedule)
    print(f"{name}: idle {timeline.idle[0]:g} of {timeline.makespan:g}; peaks {peak_activations(schedule)}")
figure, axes = figures.new_rows(8, 4.6, 2)
figures.show(figure, figures.draw_timelines(axes, rows, marks=figures.Marks(phases=True)))

# %% [markdown]
# The bubble is the same, (P−1)/(M+P−1) = 3/11. The memory is min(P−r, M) microbatches instead of M. To draw or run
# your own schedule, use `parse_schedule(one_f_one_b(4, 8))`, here and below.
#
# > **What M costs depends on what you hold fixed.** At a fixed *microbatch size*, each additional microbatch costs this
# > GPipe one more set of activations per rank; 1F1B pays nothing more from M = P on. At a fixed *batch*, GPipe always
# > holds the whole batch, and 1F1B's memory falls as M grows.
# >
# > **The paper's GPipe** recomputes (week 6): a stage keeps only the *input* of each microbatch and runs its forward
# > again before the backward. Only one microbatch at a time needs the activations inside the layers, so more
# > microbatches of a fixed batch need *less* memory. The cost is a second forward.
#
# ## 8 · A loss that is right and a gradient that is not
#
# Here is a whole GPipe step on real ranks: each stage is `tanh(x @ weight)`, and the last rank computes the loss. It
# was "tested": its loss matches that of one process. **Where would you look for the bug? Run it and look at both
# lines.**


# %%
def step_with_a_bug(weight, microbatches, targets, *, group):
    rank, last = dist.get_rank(group), dist.get_world_size(group) - 1
    weight, alive, losses = weight.clone().requires_grad_(), [], []
    for given in microbatches:
        x = given if rank == 0 else torch.empty_like(given)
        if rank > 0:
            dist.recv(x, group_src=rank - 1, group=group)
        y = torch.tanh(x.requires_grad_(rank > 0) @ weight)
        alive.append((x, y))
        if rank < last:
            dist.send(y.detach(), group_dst=rank + 1, group=group)
    for (x, y), target in zip(alive, targets, strict=True):
        if rank < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group_src=rank + 1, group=group)
            y.backward(gradient)
        else:
            losses.append(mse_loss(y, target))
            losses[-1].backward()
        if rank > 0:
            dist.send(x.grad, group_dst=rank - 1, group=group)
    return (torch.stack(losses).mean().detach() if rank == last else None), weight.grad


# %%
torch.manual_seed(0)
weight, batch, target = torch.randn(4, 4) / 2, torch.randn(12, 4), torch.randn(12, 4)


def tied_step(num_microbatches):
    cut = batch.chunk(num_microbatches), target.chunk(num_microbatches)
    return step_with_a_bug(weight, *cut, group=dist.group.WORLD)


leaf = weight.clone().requires_grad_()
loss = mse_loss(torch.tanh(torch.tanh(batch @ leaf) @ leaf), target)
loss.backward()
for num in (1, 4):
    (_, first), (their_loss, last) = shardlab.run(tied_step, num, ranks=2)
    print(f"{num} microbatches: loss {their_loss / loss:.3f}, gradient {(first + last).norm() / leaf.grad.norm():.3f}")

# %% [markdown]
# Both numbers are ratios to one process, so they should be 1.000. The loss is logged and looks fine. With Adam, which
# hardly depends on the gradient's scale, even the loss curve looks fine. Gradient clipping does depend on it.
# PyTorch's torchtitan had this bug ([issue 2972](https://github.com/pytorch/torchtitan/issues/2972), 2026): the
# pipeline's loss was divided *after* the backward, only for the log.
#
# **By hand:** three rows have the losses 1, 3 and 8; their mean is 4. As microbatches of two rows and one row, the
# means are 2 and 8. Their sum is 10 and their mean is 5; both are wrong. Which weights turn 2 and 8 into 4?
#
# ### Bug hunt: `pipeline_step`
#
# This step also hard-codes its order. Fix both. **`run_slots(schedule, forward, weights, like, *, group)`** runs this
# rank's list of *any* schedule, in the order of the list, and returns `{microbatch: loss}`, losses detached, which is
# empty except on the rank of the last stage. Your own trainer (week 15) will call it.
#
# - `forward(stage, m, x)` returns a stage's output; on the last stage, the loss. On stage 0, `x` is None.
# - `weights(stage)` lists a stage's weights: pass it to `backward`, which uses it for W.
# - `like[m]` has the shape and dtype of microbatch m's activation.
#
# **`Messages`** names a message by the slot that needs it: after `1F3`, the rank of stage 1 calls `messages.send(y,
# 2, "F", 3)`, and the rank of stage 2, for `2F3`, calls `messages.receive(2, "F", 3)`. A gradient's kind is always
# "B", also if the slot that needs it is `1I3`.
#
# - `send` does not wait (`dist.isend`): in 1F1B neighbors send to each other at the same time (section 5).
# - Send values, not graphs: `y.detach()`, and `requires_grad_()` on the receiver.
# - Each message has its own `tag`, a number computed from stage, kind and m, because a rank may receive two messages
#   from the same rank in a different order than they were sent.
# - If one rank holds both stages, keep the tensor in `here` and send nothing.
#
# The next cell is given. `backward` also knows week 8's letters, where B is split into I, the gradient of x, and later
# W, the gradients of the weights. Only I sends; keep what W will need.
#
# The last stage calls backward on **`loss_share(y, target, num_rows)`**. The shares of all microbatches add up to the
# mean over the batch's `num_rows` rows. The last microbatch of an epoch may have fewer rows than the others.
#
# The given `pipeline_step` runs your two functions on stages of `tanh(x @ weight)`; the check uses its own schedules.
# Send each activation and each gradient once, and do not modify the inputs. *About 30 lines.*


# %%
import re


def parsed(schedule):
    """Given. Each rank's slots as (stage, letter, microbatch). Week 13's pairs become two slots."""
    return [[(int(s), k, int(m)) for s, k, m in re.findall(r"(\d+)([FBIW])(\d+)", " ".join(row))] for row in schedule]


def owners(schedule):
    """Given. The rank of each stage."""
    return {stage: rank for rank, slots in enumerate(parsed(schedule)) for stage, _, _ in slots}


def backward(kind, x, y, gradient, weights):
    """Given. Compute gradients. "B": all; "I": only that of x; "W": only those of the weights."""
    if kind != "I" or x is not None:
        inputs = {"B": None, "I": [x], "W": weights}[kind]
        torch.autograd.backward(y, gradient, inputs=inputs, retain_graph=kind == "I")


# %% exercise="week07.pipeline-step"
class Messages:
    """Moves tensors between slots. Each message has its own tag; a rank never sends to itself."""

    def __init__(self, owner, like, group):
        self.owner, self.like, self.group = owner, like, group  # owner: {stage: rank}
        self.here, self.under_way = {}, []  # {(stage, kind, m): tensor} and [(tensor, work) of each send]

    def send(self, tensor, stage, kind, m):
        """Start sending the input of slot (stage, kind, m) to the rank of that stage."""
        ### BEGIN SOLUTION
        to, tensor = self.owner[stage], tensor.detach().contiguous()
        if to == dist.get_rank(self.group):
            self.here[stage, kind, m] = tensor
            return
        tag = 2 * (m * len(self.owner) + stage) + (kind == "F")
        self.under_way.append((tensor, dist.isend(tensor, group_dst=to, group=self.group, tag=tag)))
        ### END SOLUTION

    def receive(self, stage, kind, m):
        """The input of this rank's slot (stage, kind, m): from the previous stage for "F", the next one for "B"."""
        ### BEGIN SOLUTION
        source = self.owner[stage - 1 if kind == "F" else stage + 1]
        if source == dist.get_rank(self.group):
            return self.here.pop((stage, kind, m))
        tensor, tag = torch.empty_like(self.like[m]), 2 * (m * len(self.owner) + stage) + (kind == "F")
        dist.recv(tensor, group_src=source, group=self.group, tag=tag)
        return tensor
        ### END SOLUTION


def loss_share(y, target, num_rows):
    """A microbatch's share of the mean squared error of a batch with `num_rows` rows."""
    ### BEGIN SOLUTION
    return mse_loss(y, target) * len(target) / num_rows
    ### END SOLUTION


def run_slots(schedule, forward, weights, like, *, group):
    """Run this rank's slots, such as "1F3"; returns {microbatch: loss}, empty except on the last stage's rank."""
    slots, owner = parsed(schedule)[dist.get_rank(group)], owners(schedule)
    messages, last = Messages(owner, like, group), len(owner) - 1
    alive, losses = {}, {}
    ### BEGIN SOLUTION
    for stage, kind, m in slots:
        if kind == "F":
            x = None if stage == 0 else messages.receive(stage, "F", m).requires_grad_()
            y = forward(stage, m, x)
            alive[stage, m] = x, y, None
            if stage == last:
                losses[m] = y.detach()
            else:
                messages.send(y, stage + 1, "F", m)
            continue
        x, y, gradient = alive.pop((stage, m))
        if kind != "W" and stage < last:
            gradient = messages.receive(stage, "B", m)
        backward(kind, x, y, gradient, weights(stage))
        if kind == "I":
            alive[stage, m] = x, y, gradient
        if kind != "W" and stage > 0:
            messages.send(x.grad, stage - 1, "B", m)
    ### END SOLUTION
    for _, work in messages.under_way:
        work.wait()
    return losses


def pipeline_step(weights, microbatches, targets, schedule, *, group):
    """Given. (loss, gradients of this rank's weights). weights[stage] is None if another rank has the stage."""
    leaves = [None if weight is None else weight.clone().requires_grad_() for weight in weights]

    def forward(stage, m, x):
        y = torch.tanh((microbatches[m] if stage == 0 else x) @ leaves[stage])
        return loss_share(y, targets[m], sum(map(len, targets))) if stage == len(weights) - 1 else y

    losses = run_slots(schedule, forward, lambda stage: [leaves[stage]], microbatches, group=group)
    return sum(losses.values()) if losses else None, [leaf.grad for leaf in leaves if leaf is not None]


# %% check="week07.pipeline-step" points=3
sizes = {"ranks": 2, "numbers": 4, "microbatches": 4, "rows": 3, "part": "equal microbatches"}
short = {"microbatches": 3, "last_rows": 1, "part": "a short microbatch"}
cases = [sizes | {"schedule": name} for name in ("gpipe", "1f1b", "zb-h1")]
cases += [sizes | {"schedule": "gpipe"} | short, sizes | {"ranks": 1, "stages": 3, "schedule": "1f1b"}]
check("week07.pipeline-step", pipeline_step, cases=cases)

# %% [markdown]
# Now run your two schedules on real ranks, with the numbers from above. All four ratios should be 1.000.


# %%
def tied_step_of(schedule):
    own = [weight if stage == dist.get_rank() else None for stage in range(2)]
    return pipeline_step(own, batch.chunk(4), target.chunk(4), schedule, group=dist.group.WORLD)


for build in (gpipe, one_f_one_b):
    (_, [first]), (their_loss, [last]) = shardlab.run(tied_step_of, build(2, 4), ranks=2)
    ratio = (first + last).norm() / leaf.grad.norm()
    print(f"{build.__name__}: loss {their_loss / loss:.3f}, gradient {ratio:.3f}")

# %% [markdown]
# > **A tied embedding is a similar trap.** Above, both ranks held the *same* weight, and only the sum `first + last` of
# > their gradients matched one process. GPT's first and last stage share the embedding in this way. Frameworks
# > all-reduce its gradient over a group of just these two ranks; without that, the two copies silently drift apart.
#
# ## 9 · Choose and run
#
# Predict, then press *Run it*. Ranks and messages are real, stages sleep.

# %% tags=["interactive"]
figures.schedule_explorer("1f1b", run=run_emulated)

# %% [markdown]
# ## 10 · Predict, then measure
#
# **The bubble.** Stages that *sleep* for an exact time show it on any laptop: two cores can run four sleeping ranks at
# once, but not four matrix products. First the utilization of two stages, then both schedules on four ranks.

# %%
for num in (1, 4, 8):
    schedule = builders.gpipe(2, num)
    predicted, measured = simulate(schedule), run_emulated(schedule)
    print(f"2 stages, M = {num}: predicted {1 - predicted.bubble:.0%} busy, measured {1 - measured.bubble:.0%}")
for name, build in [("GPipe", builders.gpipe), ("1F1B", builders.one_f_one_b)]:
    predicted, measured = simulate(build(4, 8)), run_emulated(build(4, 8))
    print(f"{name}, 4 stages, M = 8: predicted {predicted.bubble:.1%} idle, measured {measured.bubble:.1%}")
figure, axes = figures.new_rows(8, 4.4, 2)
rows = [("1F1B, predicted", measured.schedule), ("1F1B, measured", measured)]
figures.show(figure, figures.draw_timelines(axes, rows))

# %% [markdown]
# The rest is messages and wake-up time, a millisecond or two per slot, more on a busy machine. 1F1B loses more to them
# than GPipe, because its neighbors wait for each other at every microbatch.
#
# ## 11 · Read real code
#
# `record` runs one rank of the installed Megatron-Core's 1F1B. The next cell prints the lines that start its messages.
#
# **`predict_trace(rank, world, pp, microbatches, visit)`** returns a dict for the global rank `rank`; a run decides:
#
# 1. `"ranks"`: global ranks of this rank's pipeline, world/pp apart;
# 2. `"before"`: how many sends and receives it starts before its first `backward_step`;
# 3. `"next"`: which messages start together next, once the rank has reached `send_forward_recv_backward` for the
#    `visit`-th time (from 1). Each is `["isend" or "irecv", global rank of the peer]`, the send first; `[]` if the rank
#    reaches it fewer times.
#
# **By hand**, four ranks, P = 2, M = 2: ranks 1 and 3 are a pipeline. Rank 1 sends two activations and receives a
# gradient before B0: 3. Rank 3, visit 1: `[["isend", 1], ["irecv", 1]]`, because the peer's global rank is 1 (its place
# in the pipeline is 0). *About 11 lines.*

# %%
from autograder.traces import Pipeline, places, record

print(places.STEADY.path)
for place, after in places.ONE_F_ONE_B_SOURCE:
    print(f"{place.file}, {place.function}:", place.source(after=after), sep="\n")


# %% exercise="week07.reading"
def predict_trace(rank, world, pp, microbatches, visit):
    """What Megatron's run shows on this rank: {ranks, before, next}."""
    ### BEGIN SOLUTION
    apart = world // pp
    stage, back, ahead = rank // apart, rank - apart, rank + apart
    forwards = min(microbatches, pp - stage)  # before the first backward
    visits = max(0, microbatches - (pp - 1 - stage))
    pair = [["isend", ahead], ["irecv", ahead]]
    if stage == pp - 1:
        pair = [["isend", back], ["irecv", back]][: 1 + (visit < visits)]
    return {
        "ranks": list(range(rank % apart, world, apart)),
        "before": (stage > 0) * forwards + (stage < pp - 1) * (forwards + 1),
        "next": pair if visit <= visits else [],
    }
    ### END SOLUTION


# %% check="week07.reading" points=2
check("week07.reading", predict_trace)

# %%
layout = Pipeline(world=8, tp=1, pp=4, chunks=1, microbatches=6, s=3, b=1, h=8)
print(record(layout, 5, places.ONE_F_ONE_B))

# %% [markdown]
# ## 12 · Interview: P = 8, bubble below 10%: what is the smallest M?
#
# **`smallest_num_microbatches(num_ranks, percent)`** returns the smallest M whose bubble is *below* `percent` %, for
# whole percentages. Below is strict: two stages idle 1/(M+1), which is exactly 50% at M = 1, so below 50% needs M = 2.
# *About 2 lines.*


# %% exercise="week07.smallest"
def smallest_num_microbatches(num_ranks, percent):
    """The smallest number of microbatches for which the bubble (P-1)/(M+P-1) is below `percent` percent."""
    ### BEGIN SOLUTION
    return (num_ranks - 1) * (100 - percent) // percent + 1
    ### END SOLUTION


# %% check="week07.smallest" points=1
sizes = [(4, 30), (8, 10), (8, 7), (14, 13), (1, 5)]
cases = [{"num_ranks": num_ranks, "percent": percent} for num_ranks, percent in sizes]
check("week07.smallest", smallest_num_microbatches, cases=cases)

# %% [markdown]
# Now write the answer that you would give, in five to eight sentences: the number and why it is not one less; how far
# *your* measured bubble in section 10 was from the formula, and why; what that many microbatches cost in GPipe and in
# 1F1B; why you cannot keep raising M; what else in the formula you could change (week 8 has more).

# %% [markdown] manual="week07.interview" points=2
# ### BEGIN SOLUTION
# From 7/(M+7) < 1/10 follows M > 63, so M = 64; at 63 the bubble is exactly 10%. On my machine the measured bubble was
# between 28% and 31% for P = 4, M = 8, where the formula says 27.3%. Messages and waking up take about a millisecond
# per slot, which the formula ignores, and stages are rarely equal.
#
# In GPipe without recomputation, every GPU holds the activations of all 64 microbatches. In 1F1B, rank 0 holds 8,
# however large M is, so 1F1B makes such an M possible.
#
# M cannot grow forever. With a fixed batch, each microbatch gets smaller until the GPU's matrix products are
# inefficient. With a fixed microbatch, the batch grows beyond what helps training, and data parallelism multiplies it.
# Instead I would interleave v chunks per rank (bubble divided by v, messages times v), use a zero-bubble schedule, or
# use fewer stages and more tensor parallelism inside the server.
#
# Full marks: 64 with the reason, one measured number, GPipe against 1F1B memory, one limit of M, one remedy.
# ### END SOLUTION

# %% [markdown]
# ## 13 · Recap
#
# <details><summary>P = 4, M = 8: what share of the time is idle, and does 1F1B change it?</summary>
#
# 3/11, and no: 1F1B changes only the memory, from 8, 8, 8, 8 microbatches to 4, 3, 2, 1.
# </details>
#
# <details><summary>Which rank of 1F1B runs out of memory first?</summary>
#
# Rank 0: it holds P microbatches, and often the embedding. The last rank holds one, but has the logits.
# </details>
#
# <details><summary>You double the microbatches of a fixed batch. Which bytes change?</summary>
#
# The total stays the same: twice as many messages, each half as large. You pay the latency twice as often.
# </details>
#
# ## 14 · Take away
#
# > **One.** The bubble of P equal stages is (P−1)/(M+P−1): more microbatches make it smaller. At a fixed microbatch
# > size, each one costs GPipe its activations (or its input, with recomputation); in 1F1B, those beyond P cost nothing.
#
# > **Two.** A stage boundary costs one activation forward and one gradient back, so use this axis for slow links.
#
# > **Three.** A right loss proves nothing about the gradient. Compare the gradient of every stage, including tied
# > weights, with one process.
#
# ## 15 · Going further
#
# - Huang et al., *GPipe*, arXiv 1811.06965. Look for: why they find the bubble negligible where your formula says 18%
#   (section 2.3 recomputes early), and how much memory recomputation saves.
# - Narayanan et al., *PTD-P*, arXiv 2104.04473. Look for: figure 4, and figure 6, whose curves your second number
#   reproduces.
# - Megatron Bridge, *Parallelisms Guide*, the section on pipelines. Look for: how the first and last stage get fewer
#   layers.
# - **Labs 1 and 2**: `labs/README.md` explains how to run `pp_simulation.py` on your machine, and how to compare
#   Megatron's pipeline with ours. `docs/one-screen/pipeline-1f1b.md` shows the whole 1F1B step on one screen.

# %% [markdown]
# ## Optional · A schedule under a cap, and a real profile
#
# ### Challenge: a schedule under a cap
#
# Each of your GPUs can hold the activations of C microbatches, with C at most P. **`capped(num_ranks, num_microbatches,
# max_activations)`** returns a schedule of F and B in which no rank ever holds more, and whose total time is *minimal*.
# F takes 1 unit, B takes 2. *About 17 lines.*
#
# What is the minimum? Think of C *places*. A microbatch takes one when it enters rank 0 and gives it back when it has
# left: P forwards down and P backwards up, 3P units at the earliest. **Predict the minimum for P = 4, M = 8, C = 2,
# then run the cell.**

# %%
figure, ax = figures.new_axes(8, 1.9)
figures.show(figure, figures.draw_least_makespan(ax, 4, 8, 2))

# %% [markdown]
# Two places are taken for three full rounds, 3 · 12 = 36 units. Only then do the last two microbatches enter. The last
# rank (its slots are framed) can work on one of them at a time, 3 units each, so the second one is 3 units behind:
# 36 + 12 + 3. This makes 51 units instead of 33.
#
# In general, M = qC + s with 1 ≤ s ≤ C: q full rounds, one last trip, and s − 1 delays, **3·((q+1)P + s − 1)** units.
# That is `least_makespan` in `shardlab.pipeline_parallel.bounds`. It can be reached.
#
# **By hand**, P = 2, M = 2, C = 1: rank 0 cannot start its second forward until its first backward has ended. This
# gives `0F0 0B0 0F1 0B1` on rank 0 and `1F0 1B0 1F1 1B1` on rank 1. Each trip takes 1 + 1 + 2 + 2 = 6 = 3P units, so
# two take 12. By the formula, 2 = 1·1 + 1, so q = 1, s = 1, and 3·(2·2 + 0) = 12.
#
# 1F1B with a shorter warm-up obeys the cap, but takes 69: somewhere a rank waits for a forward while a backward is
# ready. When yours is right, measure it: `run_emulated(parse_schedule(capped(4, 8, 2)))`.


# %% exercise="week07.capped"
def capped(num_ranks, num_microbatches, max_activations):
    """The fastest schedule of F (1 unit) and B (2 units) in which no rank holds more than max_activations."""
    ### BEGIN SOLUTION
    schedule, ends = [[] for _ in range(num_ranks)], {}
    free, num_f, num_b = ([0] * num_ranks for _ in range(3))
    while min(num_b) < num_microbatches:
        could = []
        for r in range(num_ranks):
            f, b, before, behind = num_f[r], num_b[r], f"{r - 1}F{num_f[r]}", f"{r + 1}B{num_b[r]}"
            if b < f and (r == num_ranks - 1 or behind in ends):
                could.append((max(free[r], ends.get(behind, 0)), "B", r, b))
            if f < num_microbatches and f - b < max_activations and (r == 0 or before in ends):
                could.append((max(free[r], ends.get(before, 0)), "F", r, f))
        begin, kind, r, m = min(could)
        schedule[r].append(f"{r}{kind}{m}")
        ends[schedule[r][-1]] = free[r] = begin + (1 if kind == "F" else 2)
        (num_f if kind == "F" else num_b)[r] += 1
    return schedule
    ### END SOLUTION


# %% check="week07.capped" points=3 optional=true
sizes = [(4, 8, 4), (4, 8, 2), (4, 8, 1), (3, 5, 2)]
cases = [{"num_ranks": p, "num_microbatches": m, "max_activations": most} for p, m, most in sizes]
check("week07.capped", capped, cases=cases)

# %% [markdown]
# ### Bytes and memory, measured
#
# The stages of section 10 had no tensors. With real layers, `execute` runs the same schedules, the meter counts the
# bytes passed to `send`, and two autograd hooks count the activations that are saved and released. Which ranks send
# half as much?
#
# > **A correction.** "P2P volume = activation × microbatches" counts one direction at one boundary. The gradients come
# > back (×2), and there are P−1 boundaries, or vP−1 with v chunks per rank (week 8).


# %%
def sent_and_held(schedule, rows=4, width=64):
    rank, batch, held = dist.get_rank(), [torch.randn(rows, width) for _ in range(8)], [0]

    def keep(tensor):
        held.append(held[-1] + (tensor.shape == (rows, width)))
        return tensor

    def give_back(tensor):
        held.append(held[-1] - (tensor.shape == (rows, width)))
        return tensor

    begin = {"inputs": batch} if rank == 0 else {"input_like": batch[0]}
    end = {"loss": lambda y, m: y.sum()} if rank == len(schedule) - 1 else {}
    stages = {rank: pipeline_parallel.ModuleStage(torch.nn.Linear(width, width), **begin, **end)}
    with meter.record() as bill, torch.autograd.graph.saved_tensors_hooks(keep, give_back):
        pipeline_parallel.execute(schedule, stages, group=dist.group.WORLD)
    return sum(event.sent_bytes for event in bill.events if event.kind == "send"), max(held)


print("predicted", [(4 * 64 * 4) * 8 * boundaries for boundaries in (1, 2, 2, 1)])
for name, build in [("GPipe", builders.gpipe), ("1F1B", builders.one_f_one_b)]:
    sent, held = zip(*shardlab.run(sent_and_held, build(4, 8), ranks=4), strict=True)
    print(f"{name}: sent {sent}; predicted to hold {peak_activations(build(4, 8))}, held {held}")

# %% [markdown]
# ### 1F1B in a profiler
#
# The stages of section 10 did no work. Here is a real 1F1B step with four ranks on one H200 and eight
# microbatches, as torch's profiler recorded it: a list of GPU kernels and when each ran. Blue is forward, orange
# backward, dark blue a message. **Compare it with the timeline above: what is the same, and what is not?**

# %%
figure, ax = figures.new_axes(9, 3.9)
figures.show(figure, figures.draw_profile(ax, figures.kept_traces("week07"), name="1F1B on one H200"))

# %% [markdown]
# The order matches the schedule, slot by slot, but the lengths do not. The schedule has a bubble of 27%; here the
# ranks spend 43% of the time without computing, because messages between neighbors also take time and this 1F1B hides
# almost none of it. A message's kernel runs from its launch until the
# other rank joins; where it only waits for that rank, the figure is hatched. `docs/profiler.md` explains how to make
# such a figure of your own steps.
