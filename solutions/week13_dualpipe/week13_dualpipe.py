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
# # Week 13 · DualPipe (双向流水线): microbatches from both ends
#
# *Core: about 160 minutes; optional: about 20 · 2 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** DualPipe and DualPipeV from their eight steps, and keep two copies of the weights equal;
# - [ ] **predict** its bubble, and say when the printed formula no longer holds;
# - [ ] **find** a message that was swapped with another of the same shape.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>Who waits for F, I, W and B? (Week 8)</summary>
#
# The next stage waits for F, the previous stage for I, and only the optimizer for W. B is I and W in one pass.
# </details>
#
# <details><summary>Which four all-to-alls (全交换) does a layer of experts need? (Week 12)</summary>
#
# Dispatch and combine in the forward, and the same two for gradients in the backward.
# </details>
#
# <details><summary>How does NCCL know which message is which?</summary>
#
# Only by order: the k-th message sent to a rank is the k-th that it receives. There are no tags.
# </details>

# %%
from collections import deque

import torch
import torch.distributed as dist
from shardlab import RanksFailed, figures, pipeline_parallel, run

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# DeepSeek-V3 was trained on 16 pipeline ranks, with its experts distributed over 8 nodes. Its report (arXiv
# 2412.19437, section 3.2.1) says that the ratio of compute to all-to-alls between nodes was about 1 to 1. Let F, I
# and W each compute for 1 unit; F and I each have half of the transfers, 1.5 units. With 64 microbatches, for what
# fraction of a step does a GPU compute? Guess, then run the cell.

# %%
builders, simulate, Durations = pipeline_parallel.builders, pipeline_parallel.simulate, pipeline_parallel.Durations
exposed = Durations(1 + 1.5, 1 + 1.5, 1)  # transfers in F and in I: the device waits for them
hidden = Durations(1 + 1.5, 1 + 1.5, 1, overlapped=3)  # an overlapped pair: 3 units of compute hide 3 of transfers
plans = {"1F1B": (builders.one_f_one_b, exposed), "ZB-H1": (builders.zb_h1, exposed)}
plans["DualPipe"] = (builders.dualpipe, hidden)
for name, (build, durations) in plans.items():
    makespan = simulate(build(16, 64), durations).makespan
    print(f"{name}: a step takes {makespan:g} units, {3 * 64 / makespan:.0%} of them computing")

# %% [markdown]
# Without overlap, it is less than half. ZB-H1 fills the bubble but not the transfers. Only other work *on the same
# device at the same time* hides a transfer.
#
# ## 2 · The picture first
#
# **Inside a pair.** A layer of experts has four pieces: attention, dispatch, experts, combine. Two of them compute
# and two communicate. Within one microbatch, each waits for the previous one, so the device waits for the link and
# the link waits for the device. Two microbatches, one in its forward (F) and one in its backward (B), do not wait for
# each other. The backward goes through the layer from its end: first it sends the gradients of combine, then runs the
# experts' backward, and so on. Below, F computes for 1 s, B for 2 s, and each of the four all-to-alls takes 0.5 s.
# **How long does the pair take, in sequence and overlapped?**

# %%
figure, ax = figures.new_axes(9, 2.8)
figures.show(figure, figures.draw_pair(ax, forward=1.0, backward=2.0, all_to_all=0.5))

# %% [markdown]
# Check it by hand: 1 + 2 + 4 · 0.5 = 5 s in sequence. As a pair, the device computes for 3 s without a break, and the 2
# s of transfers run at the same time. If the four transfers took longer than 3 s, the link would be busy without a
# break instead.
#
# **Where do pairs come from?** From a second direction. With two ranks and four microbatches, 0 and 1 enter at rank
# 0, and 2 and 3 at rank 1. Black frames are pairs of two microbatches that move in opposite directions.

# %%
figure, ax = figures.new_axes(7, 2)
figures.show(figure, figures.draw_timeline(ax, builders.dualpipe(2, 4), name="DualPipe"))

figure, ax = figures.new_axes(10, 3.9)
figures.show(figure, figures.draw_timeline(ax, builders.dualpipe(8, 20), name="DualPipe"))

# %% [markdown]
# Each rank works on two stages (the hatched boxes belong to the second), so **each stage is held twice**: rank r has
# stages r and P−1−r. In exchange, the middle of the step consists of pairs on every rank, and it grows with the
# number of microbatches.
#
# ## 3 · Notation, and the bill
#
# - **P** ranks, **M** microbatches, M/2 in each direction; **F&B** seconds for an overlapped pair. F is a forward, I
#   is the gradient of a stage's input, W is the gradient of its weights, and B = I + W; in formulas the letters are
#   seconds.
# - A rank's **near** stream (近端流) has just entered the pipeline; its **far** stream (远端流) is about to leave.
# - **L** = P/2 ranks from an end to the middle; **e** hops from a rank to the end where its near stream enters.
#
# | | bubble, as printed (B is I + W) | weights | activations |
# |---|---|---|---|
# | 1F1B | (P−1)(F+B) | 1× | P |
# | ZB-H1 | (P−1)(F+B−2W) | 1× | P |
# | DualPipe | (P/2−1)(F&B+B−3W) | 2× | P+1 |
#
# This is table 2 of the report, in section 3.2.1, where ZB-H1 is called ZB1P.
#
# ### Warm-up: the bill of DualPipe
#
# **By hand**, P = 4, F = I = W = 1, and a pair saves nothing: F&B = 1 + 2 = 3. The idle time is (4/2 − 1) · (3 + 2
# − 3) = 2; ZB-H1 has 3 · (1 + 2 − 2) = 3, and 1F1B has 9. A rank holds 5 activations.
#
# **`dualpipe_bill(num_ranks, forward, weight_gradient, pair)`** returns the idle time by the printed formula, and the
# number of activations. I takes as long as F, so B = F + W. *One line.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other durations, sizes, dtypes
# > and numbers of ranks and microbatches, and groups that are only part of the world.


# %% exercise="week13.bill"
def dualpipe_bill(num_ranks, forward, weight_gradient, pair):
    """Returns (idle seconds, activations); pair: seconds of an overlapped F and B."""
    ### BEGIN SOLUTION
    backward = forward + weight_gradient
    return (num_ranks / 2 - 1) * (pair + backward - 3 * weight_gradient), num_ranks + 1
    ### END SOLUTION


# %% check="week13.bill" points=1
sizes = [(8, 1.0, 3.0), (8, 0.8, 2.8), (4, 0.8, 2.5)]
cases = [{"num_ranks": p, "forward": 1.0, "weight_gradient": w, "pair": pair} for p, w, pair in sizes]
check("week13.bill", dualpipe_bill, cases=cases)

# %% [markdown]
# **Is the formula true?** **Predict** the idle time for F = 1, I = 1.2, W = 0.8 on eight ranks with the *printed*
# formula, using B = I + W = 2 and F&B = F + B = 3. (Your function assumes I = F.) Then compare with the clock.

# %%
for durations in (Durations(1, 1, 1), Durations(1, 1, 0.8), Durations(1, 1, 1.5), Durations(1, 1.2, 0.8)):
    f, i, w = durations.forward, durations.input_gradient, durations.weight_gradient
    printed = (8 / 2 - 1) * ((f + i + w) + (i + w) - 3 * w)
    timeline = simulate(builders.dualpipe(8, 20), durations)
    print(f"F = {f}, I = {i}, W = {w}: the formula {printed:.1f}, the clock {max(timeline.idle):.1f}", end="")
    print(f" of {timeline.makespan:.1f}")

# %% [markdown]
# > **At balance** (F = I, and W no longer than these), the formula holds. Otherwise it can be 4.5 where the clock says
# > 6, and 7.8 where it says 7.2. Trust the clock. **Every bubble graded this week is idle
# > time by makespan** (the whole step minus the time that the rank works), **on the clock of `simulate`, with the
# > durations that the exercise names.**
#
# ## 4 · Eight steps
#
# DeepSeek's code writes a rank's order as eight steps. We write them as words for one rank: a letter and `n` or `f`
# for the near or far stream, such as `"Fn"`; `"Fn&Bf"` is a pair; `"W"` is the oldest waiting weight gradient. Each
# stream has m microbatches, and the rank is c = L−1−e hops from the middle. *How often* does each step repeat? You
# can derive every count. Let each letter take one unit.
#
# | step | words | repeated until |
# |---|---|---|
# | 1 | `Fn` | the first far forward is due, apart from the `Fn` of step 2 |
# | 2 | `Fn Ff` | the first far backward is due |
# | 3 | `If W Ff` | near forwards lead far ones by as much as in step 4 |
# | 4 | `Fn&Bf Ff&Bn` | no near forwards are left |
# | 5 | `Bf Ff&Bn` | no far forwards are left |
# | 6 | `Bf Bn` | no far backwards are left |
# | 7 | `W In` | no near backwards are left |
# | 8 | `W` | no weight gradients are left |
#
# **Steps 1 and 2: count hops.** From its near stage here, a microbatch makes c hops to the middle, one hop to the other
# stage there, and c hops back to its far stage here. Until then the rank runs near forwards only. From the far stage
# it makes e hops to the end, and its gradient e hops back. Meanwhile near and far forwards take turns.
#
# **Step 3: count distance.** In step 4 a hop takes one pair, and only *every second* pair has an `Fn`: c more of them
# during the 2c+1 hops to the middle and back. So near forwards must lead far ones by c, but after step 2 they lead by
# 2c. For the same reason, far backwards must lead near ones by c. Each `If W Ff` changes both by one.
#
# **Steps 4 to 8: count what is left** of m forwards and m backwards in each stream (an I is a backward). In the second
# half of step 6's *words*, write I for B: these W fill waiting time later. (Postponing fewer or more makes the step
# longer.) On a middle rank (c = 0), the first pair of step 4 runs as `Fn Bf`, one after the other, because the next
# rank waits for its F. (Paired, the clock of section 3 would also say 7.8.)
#
# **By hand**, e = 4, L = 7, m = 16, so c = 2. From near to far stage there are 5 hops: 5 near forwards, one of them in
# step 2, so step 1 has **4**. From the far stage to the end and back there are 8 hops: 8 forwards, two in each `Fn Ff`
# after the first one, so step 2 has 1 + 4 = **5**. The lead falls from 4 to 2: step 3 has **2**. Near forwards so far:
# 4 + 5, so step 4 has **7**. Far forwards: 5 + 2 + 7, so step 5 has **2**. Far backwards: 2 + 7 + 2, so step 6 has
# **5** (the last 5 of 10 words are I). Near backwards: 7 + 2 + 5, so step 7 has **2**. There are 2 + 5 + 2 I and 4 W so
# far, so step 8 has **5**.
#
# **By hand**, a middle rank: rank 0 of 2 in the picture of section 2, e = 0, L = 1, m = 2. Its words are `Fn Ff | Fn
# Bf Ff&Bn | Bf In | W`: compare with the first row of that picture.
#
# <details><summary>What would happen with one Fn more, or one fewer, in step 1?</summary>
#
# With one more, the step is no shorter, and every rank holds one more activation. With one fewer, ranks wait for each
# other, and a step takes about 1.5 times as long.
# </details>
#
# **`eight_steps(to_end, length, num_microbatches)`** returns the list of words for e, L and m. M is even and at least
# 2P, so m is at least 2L. *About 12 lines.*


# %% exercise="week13.eight-steps"
def eight_steps(to_end, length, num_microbatches):
    """Returns the words of one rank of a half pipeline, in order; num_microbatches is per stream."""
    ### BEGIN SOLUTION
    to_middle = length - 1 - to_end
    words = ["Fn"] * (2 * to_middle)
    words += ["Fn", "Ff"] * (to_end + 1)
    words += ["If", "W", "Ff"] * to_middle

    def left(*kinds):
        return num_microbatches - sum(part in kinds for word in words for part in word.split("&"))

    main = ["Fn&Bf", "Ff&Bn"] * left("Fn")
    words += main if to_middle else ["Fn", "Bf", *main[1:]]
    words += ["Bf", "Ff&Bn"] * left("Ff")
    ends = ["Bf", "Bn"] * left("Bf", "If")
    half = len(ends) // 2
    words += ends[:half] + [word.replace("B", "I") for word in ends[half:]]
    words += ["W", "In"] * left("Bn", "In")
    return words + ["W"] * (words.count("If") + words.count("In") - words.count("W"))
    ### END SOLUTION


# %% check="week13.eight-steps" points=2
places = [(0, 2, 4), (1, 2, 4), (2, 4, 10)]
cases = [{"to_end": e, "length": length, "num_microbatches": m} for e, length, m in places]
check("week13.eight-steps", eight_steps, cases=cases)

# %% [markdown]
# ### From words to slots
#
# **`slots_of(words, stages, streams)`** turns words into strings. `stages["n"]` is the number of the near stage, and
# `streams["n"]` is the list of its microbatches. Each word takes the next microbatch of its stream, counting forwards
# and backwards separately; an I adds its W to the waiting ones. A pair is written `"(1F3;0B0)OVERLAP_F_B"`.
#
# **By hand**, take the words above with near stage 0, far stage 1, microbatches 0 and 1 near, 2 and 3 far:
#
# `0F0 1F2 0F1 1B2 (1F3;0B0)OVERLAP_F_B 1B3 0I1 0W1`
#
# (`0F1` is stage 0, F, microbatch 1.) Only the backward of microbatch 1 is split, into `0I1` and `0W1`. *About 12
# lines.*


# %% exercise="week13.slots"
def slots_of(words, stages, streams):
    """Returns the strings of one rank; stages and streams have the keys "n" and "f"."""
    ### BEGIN SOLUTION
    left = {letter + end: deque(streams[end]) for letter in "FB" for end in "nf"}
    waiting = deque()

    def text(word):
        if word == "W":
            return waiting.popleft()
        letter, end = word
        microbatch = left[word.replace("I", "B")].popleft()
        if letter == "I":
            waiting.append(f"{stages[end]}W{microbatch}")
        return f"{stages[end]}{letter}{microbatch}"

    parts = [[text(part) for part in word.split("&")] for word in words]
    return [each[0] if len(each) == 1 else f"({each[0]};{each[1]})OVERLAP_F_B" for each in parts]
    ### END SOLUTION


# %% check="week13.slots" points=2
example = {"words": ["Fn", "Ff", "If", "Fn&Bf", "In", "W", "W"], "stages": {"n": 0, "f": 3}}
check("week13.slots", slots_of, cases=[example | {"streams": {"n": [0, 1], "f": [4, 5]}}])

# %% [markdown]
# ### All ranks, and the fold
#
# **DualPipe.** Rank r has e = min(r, P−1−r) and L = P/2; its near stage is e and its far stage P−1−e. Microbatches 0
# to M/2−1 enter at rank 0, the others at rank P−1. So the low numbers are in the *near* stream on the first half of
# the ranks, and in the *far* stream on the second half.
#
# **DualPipeV** (V 形) holds each stage once. In DualPipe, ranks r and P−1−r do the same work, mirrored. So Sea AI
# Lab, the authors of zero bubble (week 8), proposed to *cut it in half*
# ([February 2025](https://hackmd.io/@ufotalent/r1lVXsa9Jg)), and DeepSeek built DualPipeV
# ([DualPipe#16](https://github.com/deepseek-ai/DualPipe/issues/16)). Keep one half, and let the microbatches turn
# around in the middle: rank r holds stage r on the way down and stage 2P−1−r on the way up. The near stream goes down
# and the far stream comes up; both have the *same* microbatches, 0 to M−1. L = P and e = r.
#
# **By hand.** DualPipe on 4 ranks, M = 8: rank 1 has e = 1, stages 1 and 2, near 0–3, far 4–7; rank 2 has e = 1 too,
# and near 4–7, far 0–3. DualPipeV on 2 ranks, M = 4: rank 0 has stages 0 and 3, rank 1 has 1 and 2; near and far are
# both 0–3. On rank 1, the far stream follows the near one directly: this is the turn.
#
# **`dualpipe(num_ranks, num_microbatches)`** and **`dualpipe_v(num_ranks, num_microbatches)`** return the lists of all
# ranks, using your two functions. The clock judges them, both with equal passes and with pairs that hide messages.
# (`simulate` and `draw_timeline` take `pipeline_parallel.parse_schedule(lists)`.) No rank may hold more activations
# than in these eight steps. *About 7 and 5 lines.*


# %% exercise="week13.dualpipe"
def dualpipe(num_ranks, num_microbatches):
    """Returns DualPipe: for each rank, its slots in order; each stage is on two ranks."""
    ### BEGIN SOLUTION
    half, ranks = num_microbatches // 2, []
    halves = range(half), range(half, num_microbatches)
    for rank in range(num_ranks):
        near = min(rank, num_ranks - 1 - rank)
        streams = dict(zip("nf" if rank == near else "fn", halves, strict=True))
        words = eight_steps(near, num_ranks // 2, half)
        ranks.append(slots_of(words, {"n": near, "f": num_ranks - 1 - near}, streams))
    return ranks
    ### END SOLUTION


def dualpipe_v(num_ranks, num_microbatches):
    """Returns DualPipeV: for each rank, its slots in order; 2P stages, each on one rank."""
    ### BEGIN SOLUTION
    ranks, streams = [], dict.fromkeys("nf", range(num_microbatches))
    for rank in range(num_ranks):
        words = eight_steps(rank, num_ranks, num_microbatches)
        ranks.append(slots_of(words, {"n": rank, "f": 2 * num_ranks - 1 - rank}, streams))
    return ranks
    ### END SOLUTION


# %% check="week13.dualpipe" points=2
sizes = [("DualPipe", 4, 8), ("DualPipe", 8, 20), ("DualPipeV", 4, 10)]
cases = [{"part": part, "num_ranks": p, "num_microbatches": m} for part, p, m in sizes]
check("week13.dualpipe", dualpipe, dualpipe_v, cases=cases)

# %% [markdown]
# ## 5 · Predict, then measure
#
# The cell runs four real ranks that sleep 60 ms per unit. A sleeping rank overlaps nothing, so its pair takes F + B,
# and this measures the *bubble*, not the hidden transfers. The products in attention have no weights, so W is often
# the shorter half: use 0.5, with F = I = 1. **Predict** the three idle times with the table in section 3. (The last
# row has F = I = W. If ZB-H1 is not between the other two, run the cell again: your computer was busy.)

# %%
short, equal = Durations(1, 1, 0.5), Durations(1, 1, 1)
for name, durations in (("1f1b", short), ("zb-h1", short), ("dualpipe", short), ("dualpipe", equal)):
    schedule = builders.BUILDERS[name](4, 8)
    timeline = pipeline_parallel.run_emulated(schedule, durations, seconds_per_unit=0.06)
    due = simulate(schedule, durations)
    held = max(pipeline_parallel.peak_activations(schedule, until=pipeline_parallel.Kind.W))
    print(f"{name:9} W = {durations.weight_gradient:3}: time {timeline.makespan:5.1f} ({due.makespan:g})", end="")
    print(f"  idle {max(timeline.idle):4.1f} ({max(due.idle):g})  holds {held} activations")

# %% tags=["interactive"]
figures.schedule_explorer("dualpipe", run=pipeline_parallel.run_emulated)

# %% [markdown]
# **Your list, your executor.** `mine.pipeline` holds what you wrote in week 7, and its `run_slots` runs any list: here
# your DualPipeV on two real ranks, four stages of `tanh(x @ w)`. It must find what one process finds.


# %%
from mine import pipeline  # `owners` and `run_slots`: yours of week 7


def own_step(schedule, weights, batches):
    """Loss, and the gradients of this rank's stages."""
    owner = pipeline.owners(schedule)
    leaves = {stage: weights[stage].clone().requires_grad_() for stage in owner if owner[stage] == dist.get_rank()}

    def forward(stage, m, x):
        y = torch.tanh((batches[m] if stage == 0 else x) @ leaves[stage])
        return y.square().sum() if stage == len(weights) - 1 else y

    losses = pipeline.run_slots(schedule, forward, lambda stage: [leaves[stage]], batches, group=dist.group.WORLD)
    return sum(losses.values()), {stage: leaf.grad for stage, leaf in leaves.items()}


weights = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(1))
batches = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(2))
(loss, upper), (_, lower) = run(own_step, dualpipe_v(2, 4), weights, batches, ranks=2)
there_and_back = [["0F0", "1F0", "2F0", "3F0", "3B0", "2B0", "1B0", "0B0"]]
((one_loss, alone),) = run(own_step, there_and_back, weights, batches.view(1, 12, 8), ranks=1)
off = max((grad - alone[stage]).abs().max().item() for stage, grad in (upper | lower).items())
print(f"loss {loss:.5f}, one process {one_loss:.5f}; gradients off by at most {off:.0e}")

# %% [markdown]
# ## 6 · Two copies of everything
#
# Ranks r and P−1−r hold the same two stages. Each has processed half of the microbatches, so before the optimizer
# step you must **add** their gradients, once, after the last W.
#
# **By hand**, two ranks. Rank 0's list is `[1, 2]` for stage 0 and `[3]` for stage 1. Rank 1's list starts with *its*
# stage: `[10]` for stage 1, then `[20, 30]` for stage 0. Rank 0 returns `[21, 32]` and `[13]`; rank 1 returns `[13]`
# and `[21, 32]`.
#
# **`add_copies(gradients, *, group)`** returns both sums. On rank r, `gradients` is a list of two tensors, for stage
# r and stage P−1−r, which may differ in size. Return the sums in the same order, and do not change the input. Each
# rank sends its two tensors once; a batch of `dist.P2POp`s for `dist.batch_isend_irecv` (week 7) cannot deadlock.
# Where is stage r in the *other* rank's list? *About 8 lines.*
#
# The second copy is cheap if experts are sharded over many ranks.


# %% exercise="week13.copies"
def add_copies(gradients, *, group):
    """gradients: of stage r, of stage P-1-r. Returns both, with the other copies' gradients added."""
    ### BEGIN SOLUTION
    twin = dist.get_world_size(group) - 1 - dist.get_rank(group)
    received = [torch.empty_like(gradients[1]), torch.empty_like(gradients[0])]  # the other rank's order
    messages = [dist.P2POp(dist.isend, mine, group=group, group_peer=twin) for mine in gradients]
    messages += [dist.P2POp(dist.irecv, theirs, group=group, group_peer=twin) for theirs in received]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return [gradients[0] + received[1], gradients[1] + received[0]]
    ### END SOLUTION


# %% check="week13.copies" points=2
four = {"ranks": 4, "numbers": 6}
cases = [{"ranks": 2, "numbers": 4}, four | {"more_a_stage": 2}, four | {"more_a_stage": 1, "subgroup": [1, 3]}]
check("week13.copies", add_copies, cases=cases)

# %% [markdown]
# ## 7 · A swapped message
#
# In DualPipe, a rank sends its neighbor activations of one stream *and* gradients of the other, with the same shape.
# The cell below trains a model twice. In the second run, rank 1 in the steady state confuses an activation with a
# gradient, and that gradient with the activation. **What will you see: an error, a hang, a loss that explodes, or
# none of these?**


# %%
def swap(step):
    is_steady = isinstance(step, pipeline_parallel.MessageBatch) and len(step.messages) == 4
    if not is_steady:
        return step
    return pipeline_parallel.MessageBatch((step.messages[1], step.messages[0], *step.messages[2:]))


def train(program, schedule, batches, targets, verify=False):
    def loss(output, microbatch):
        return (output - targets[microbatch]).square().mean()

    torch.manual_seed(0)
    layers, stage = [torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)], pipeline_parallel.ModuleStage
    optimizer = torch.optim.Adam([weight for layer in layers for weight in layer.parameters()], lr=0.05)
    losses = []
    for _ in range(25):
        last = stage(layers[1], input_like=batches[0], loss=loss, loss_weight=1 / len(batches))
        stages = {0: stage(layers[0], inputs=batches), 1: last}
        pipeline_parallel.Executor(verify).run(program, stages, 2, group=dist.group.WORLD)
        pipeline_parallel.add_twin_gradients(schedule, stages, group=dist.group.WORLD)
        losses.append(sum(last.losses.values(), torch.zeros(())).item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


# %%
torch.manual_seed(1)
batches, hidden_weights = list(torch.randn(8, 16, 8)), torch.randn(8, 8) / 2
data = batches, [batch @ hidden_weights for batch in batches]
schedule = builders.dualpipe(2, 8)
program = pipeline_parallel.communicate(schedule)
wrong = [program[0], [swap(step) for step in program[1]]]
for name, each in (("right", program), ("swapped", wrong)):
    losses = [sum(pair) for pair in zip(*run(train, each, schedule, *data, ranks=2, timeout=60), strict=True)]
    print(f"{name:8}", [f"{loss:.2f}" for loss in losses[::6]])

# %% [markdown]
# It trains. The loss falls, but less than it should. Two checks find the bug: one checks the
# list of messages before the run, and the other sends each message's name before the message
# (`Executor(verify=True)`, for debugging).

# %%
print(pipeline_parallel.message_problems(wrong)[0])
try:
    run(train, wrong, schedule, *data, True, ranks=2)
except RanksFailed as report:
    print(str(report).splitlines()[-1])

# %% [markdown]
# ### Bug hunt: `swap_with_neighbour`
#
# Ranks 0 and 1, 2 and 3, … are neighbors; `rank ^ 1` is the other one. Each has an activation and a gradient for the
# other, with the same shape and dtype. Somebody wrote:
#
# ```python
# def swap_with_neighbour(activation, gradient, *, group):
#     partner = dist.get_rank(group) ^ 1
#     sends = [activation, gradient] if partner > dist.get_rank(group) else [gradient, activation]
#     receives = [torch.empty_like(activation), torch.empty_like(gradient)]
#     messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in sends]
#     messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
#     for work in dist.batch_isend_irecv(messages):
#         work.wait()
#     return receives[0], receives[1]
# ```
#
# **By hand**, ranks 0 and 1: rank 0 sends its activation, then its gradient; rank 1 sends its gradient, then its
# activation. Both receive "activation, then gradient". So which of the four received tensors are wrong?
#
# Fix it: **`swap_with_neighbour(activation, gradient, *, group)`** returns the neighbor's activation and the
# neighbor's gradient, and sends its own two once. *About 8 lines.* (Tags would help on gloo, but not on a GPU: NCCL
# ignores them, and so does the check. Only the order counts.)


# %% exercise="week13.neighbours"
def swap_with_neighbour(activation, gradient, *, group):
    """Returns (the neighbor's activation, the neighbor's gradient); all four have the same shape and dtype."""
    ### BEGIN SOLUTION
    partner = dist.get_rank(group) ^ 1
    receives = [torch.empty_like(activation), torch.empty_like(gradient)]
    messages = [dist.P2POp(dist.isend, tensor, group=group, group_peer=partner) for tensor in (activation, gradient)]
    messages += [dist.P2POp(dist.irecv, tensor, group=group, group_peer=partner) for tensor in receives]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    return receives[0], receives[1]
    ### END SOLUTION


# %% check="week13.neighbours" points=2
four = {"ranks": 4, "numbers": 6}
cases = [{"ranks": 2, "numbers": 4}, four | {"dtype": "bfloat16"}, four | {"subgroup": [1, 2]}]
check("week13.neighbours", swap_with_neighbour, cases=cases)

# %% [markdown]
# ## 8 · Read real code
#
# Open [`dualpipe/dualpipe.py`](https://github.com/deepseek-ai/DualPipe/blob/main/dualpipe/dualpipe.py) of DeepSeek:
# `step` at its end, and the methods that it calls. Three questions:
#
# 1. `"main_steps"`: 8 ranks, 20 microbatches. How many times does the loop of step 4 run on rank 3? A number.
# 2. `"weights_in"`: in which class do weight gradients wait? A name.
# 3. `"order"`: which six methods does `_forward_backward_chunk` call, in order? A list of names.

# %% exercise="week13.reading"
reading_answers = {"main_steps": None, "weights_in": None, "order": None}
### BEGIN SOLUTION
reading_answers["main_steps"] = 6  # 20/2 - 8 + 3 + 1
reading_answers["weights_in"] = "WeightGradStore"
reading_answers["order"] = ["_recv_forward", "_recv_backward", "_commit_and_wait_comm"]
reading_answers["order"] += ["_forward_backward_compute_chunk", "_send_forward", "_send_backward"]
### END SOLUTION

# %% check="week13.reading" points=1
check("week13.reading", reading_answers)

# %% [markdown]
# ## 9 · Interview: how does DualPipe overlap?
#
# In the first figure of this page, a pair computes for F + B seconds and runs four all-to-alls of `all_to_all`
# seconds. **`pair_seconds(forward, backward, all_to_all)`** returns the seconds of the pair in sequence, and
# perfectly overlapped, when the longer of the two lanes, device or link, has no break. `forward` and `backward` are
# compute time only. *One line.*


# %% exercise="week13.pair-seconds"
def pair_seconds(forward, backward, all_to_all):
    """Returns (seconds in sequence, seconds perfectly overlapped)."""
    ### BEGIN SOLUTION
    return forward + backward + 4 * all_to_all, max(forward + backward, 4 * all_to_all)
    ### END SOLUTION


# %% check="week13.pair-seconds" points=1
sizes = [(1.0, 2.0, 0.5), (1.0, 2.0, 1.0), (1.5, 2.5, 0.5)]
cases = [{"forward": f, "backward": b, "all_to_all": a} for f, b, a in sizes]
check("week13.pair-seconds", pair_seconds, cases=cases)

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: which work overlaps which transfer in a pair; why
# two directions give such pairs on every rank; bubble, weights and activations with *your* numbers; how long an
# all-to-all can be before it is no longer hidden; what you would use instead of the second copy.

# %% [markdown] manual="week13.interview" points=2
# ### BEGIN SOLUTION
# A layer is split into attention, dispatch, experts and combine. In a pair, the forward's dispatch is sent while the
# backward's experts compute, and vice versa, so device and network are both busy. Microbatches enter at both
# ends, so every rank always has one that goes forward and another that goes backward, independent of each
# other. The pair takes max(F + B, 4a) instead of F + B + 4a: with F = 1, B = 2 and a = 0.5, three seconds instead of
# five. Beyond a = 0.75, the network takes longer and is exposed.
#
# The bubble is (P/2−1)(F&B+B−3W) at balance, 6 of 66 units for 8 ranks and 20 microbatches; I measured 2 of 26 on four
# ranks and 8. It costs two copies of the weights and P+1 activations. DualPipeV takes nearly the same time with one
# copy, and 1F1B with a longer warm-up also forms pairs, at the price of up to 2P activations on rank 0.
#
# Full marks: both streams, the reason for two directions, a number of their own, the limit 4a = F + B, an alternative.
# ### END SOLUTION

# %% [markdown]
# ## 10 · Recap
#
# <details><summary>Why does the middle rank not overlap its first pair?</summary>
#
# The next rank waits for that F. In a pair, it would arrive only when the B is done too.
# </details>
#
# <details><summary>When are the two copies' gradients added, and how often?</summary>
#
# Once, after the last W. Both ranks add the same numbers, so the copies stay equal to the bit.
# </details>
#
# <details><summary>The loss falls. Is the pipeline right?</summary>
#
# You cannot tell from the loss. Compare the gradients with those of one process, and check messages by name.
# </details>
#
# ## 11 · Take away
#
# > **One.** DualPipe gives you overlap, not only a smaller bubble: an F with a B on every rank, so compute hides
# > transfers.
#
# > **Two.** A printed bubble formula holds at balance. The simulated clock holds for your durations.
#
# > **Three.** Messages have no names. Write their order once, as data, and let a program check it.
#
# ## 12 · Going further
#
# - *DeepSeek-V3 Technical Report*, arXiv 2412.19437, section 3.2. Look for: figure 4, which part of F overlaps which
#   part of B, and how many SMs the transfers may use.
# - Sea AI Lab, [*DualPipe could be better without the Dual*](https://hackmd.io/@ufotalent/r1lVXsa9Jg). Look for: what
#   is cut, and what happens to the two copies.
# - NVIDIA/Megatron-LM, `megatron/core/pipeline_parallel/combined_1f1b.py`. Look for: which passes it merges to hide
#   the experts' all-to-all with one copy.

# %% [markdown]
# ## Optional · One copy, and a profile
#
# ### Challenge: hide the all-to-all with one copy
#
# Do you need two directions to hide transfers? A pair needs an F and a B that do not wait for each other. In 1F1B,
# the last rank's B waits for the F just before it. If every rank runs further ahead, there is always such a pair.
#
# **`overlapped_1f1b(num_ranks, num_microbatches)`** returns lists of strings. Rank r has only stage r; use the
# letters F and B, and pairs. *About 8 lines.*
#
# - **Durations:** F = I = 1.5 (including 0.5 of all-to-all), W = 1, and a pair takes 3 because its transfers are
#   hidden. Without a pair, F + B takes 4.
# - **Target:** on eight ranks with 20 microbatches, a step of 89, where 1F1B takes 108. On other sizes, be as fast as
#   the order in which each rank starts with just enough forwards to pair all later ones. M may be smaller than P.
# - **Memory:** at most 2(P−r) activations on rank r.
#
# <details><summary>Hint: the last of two ranks, M = 3</summary>
#
# `1F0 (1F1;1B0)OVERLAP_F_B (1F2;1B1)OVERLAP_F_B 1B2`
# </details>


# %% exercise="week13.one-copy"
def overlapped_1f1b(num_ranks, num_microbatches):
    """Returns 1F1B in which every forward after the warm-up is paired with an older microbatch's backward."""
    ### BEGIN SOLUTION
    schedule = []
    for rank in range(num_ranks):
        ahead = min(2 * (num_ranks - 1 - rank) + 1, num_microbatches)
        slots = [f"{rank}F{m}" for m in range(ahead)]
        slots += [f"({rank}F{m + ahead};{rank}B{m})OVERLAP_F_B" for m in range(num_microbatches - ahead)]
        slots += [f"{rank}B{m}" for m in range(num_microbatches - ahead, num_microbatches)]
        schedule.append(slots)
    return schedule
    ### END SOLUTION


# %% check="week13.one-copy" points=3 optional=true
cases = [{"num_ranks": p, "num_microbatches": m} for p, m in [(2, 4), (8, 20), (3, 2)]]
check("week13.one-copy", overlapped_1f1b, cases=cases)

# %% [markdown]
# What do you get for the second copy? The cell runs the same model on eight ranks; DualPipeV's stages are half as
# large. Your own order takes 89, with one copy of the weights and 16 activations.

# %%
whole, halves = Durations(1.5, 1.5, 1, overlapped=3), Durations(0.75, 0.75, 0.5, overlapped=1.5)
for name, durations, weights in [("1f1b", whole, 1), ("dualpipe", whole, 2), ("dualpipe-v", halves, 1)]:
    schedule = builders.BUILDERS[name](8, 20)
    held = max(pipeline_parallel.peak_activations(schedule)) * (0.5 if durations is halves else 1)
    print(f"{name:11} step {simulate(schedule, durations).makespan:6.2f}, weights {weights}x, {held:g} activations")

# %% [markdown]
# **An experiment, not graded.** Add `("zbv", halves, 1)` to the last cell, and let `overlapped` grow from 3 to 4 (and
# its half for the V). From which value on is ZBV faster than DualPipe on eight ranks, although it hides nothing? What
# does that mean for fast links?

# %% [markdown]
# ### What a profiler sees
#
# Sleeping ranks follow the clock. Do real kernels? The first figure is our timeline of DualPipeV on four ranks with
# eight microbatches; each pass takes one unit, a pair 3. The second is the same order on an H200 shared by four ranks,
# as torch's profiler recorded it: every kernel, in the color of the rank that launched it. It shows the order, not a
# speedup: this model has no all-to-alls that a pair could hide. **Find three differences** before you open the answer.

# %%
figure, ax = figures.new_axes(9, 3)
figures.show(figure, figures.draw_timeline(ax, builders.dualpipe_v(4, 8), name="DualPipeV"))
figure, ax = figures.new_axes(9, 3.9)
figures.show(figure, figures.draw_profile(ax, figures.kept_traces("week13"), name="DualPipeV on one H200"))

# %% [markdown]
# <details><summary>Three differences</summary>
#
# A rank has *two* compute lanes, one per stream: where both are colored, a pair is running. Its halves share the GPU,
# so each is slower than alone. Messages take time here, and a long message mostly waits for its partner (hatched). So
# there is more gray than in the simulation, 43% of the ranks' time. ([More](../../docs/profiler.md).)
# </details>
