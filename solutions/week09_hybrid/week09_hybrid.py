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
# # Week 9 · Hybrid parallelism (混合并行): who talks to whom?
#
# *Core: about 160 minutes; optional: about 40 · 2 to 8 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **compute** the coordinates of a rank on every axis of a mesh (网格), and the groups that it belongs to;
# - [ ] **build** a training step over tensor-, pipeline- and data-parallel ranks that matches a single rank;
# - [ ] **find** a wrong group, a group that hangs, and a norm that counts twice.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>What does tensor parallelism (张量并行) send, and when?</summary>
#
# Each rank has some columns of the first matrix and some rows of the second. The partial outputs are summed: g does
# one all-reduce of an activation in the forward of each pair, and f does one in the backward.
# </details>
#
# <details><summary>What does a pipeline (流水线) stage send?</summary>
#
# For each microbatch, an activation to the next stage and its gradient to the previous stage.
# </details>
#
# <details><summary>And data parallelism (数据并行)?</summary>
#
# An all-reduce of all gradients, once per step.
# </details>

# %%
import shardlab
import torch
from shardlab import costs, data_parallel, figures, hybrid, meter, model, tensor_parallel
from shardlab.mesh import Mesh, create_process_groups, link_bytes_per_second, position

from autograder import check

dist, mse_loss = torch.distributed, torch.nn.functional.mse_loss
small = {"tp": 2, "dp": 2, "pp": 2}  # the sizes of a mesh that the checks use

# %% [markdown]
# ## 1 · The problem in numbers
#
# GPT-3 has 175 billion parameters. You have 1,024 GPUs, and the model states of one copy need 35 of them. Which axis
# (轴) do you split along? Guess which bars fit, then run the cell.

# %%
gpt3 = costs.find_model("gpt3-175b")
ways = {
    "tensor 8": costs.Layout(tp=8, dp=128),
    "tensor 8, pipeline 4": costs.Layout(tp=8, pp=4, dp=32),
    "the same with ZeRO-1": costs.Layout(tp=8, pp=4, dp=32, zero=1),
}
rows = {name: vars(costs.state_bytes(gpt3, layout)) for name, layout in ways.items()}  # on a rank of the first stage
print(f"{costs.state_bytes(gpt3, costs.Layout()).total / 80e9:.1f} GPUs of 80 GB for one copy")
figure, ax = figures.new_axes(7, 2.4)
title = "One axis is not enough: 175 billion parameters on 1,024 GPUs"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# Each axis splits something different and sends different messages. This week you combine them on the same ranks, and
# the first question is no longer *what* a rank sends but *to whom*.
#
# ## 2 · The picture first
#
# Eight ranks on two nodes (节点) of four: tp 2, dp 2, pp 2. Which rank has the other columns of rank 5's matrix?
# Which has the same weights? Which has the previous stage?

# %%
figure, ax = figures.new_axes(8, 1.5)
figures.show(figure, figures.draw_groups(ax, Mesh(tp=2, dp=2, pp=2), 5, ranks_per_node=4))

# %% [markdown]
# For each axis, every rank is in one **group** (通信组): itself and the ranks that differ from it on this axis only.
# With three axes, rank 5 is in three groups of two, and it never talks to ranks 0, 2, 3 or 6.
#
# **Notation.** A mesh axis is written as an index: `A[I, J_tp]` has its columns split over tp, `B[J_tp, K]` its rows.
# `{U_tp}` marks values that are still to be reduced over tp, such as the partial sums `Y[I, K]{U_tp}`.
#
# ## 3 · A rank is a number with digits
#
# In decimal, 37 is 7 ones and 3 tens. With sizes tp 8, dp 2, pp 4 it is 5 ones, 0 eights and 2 sixteens: tp 5, dp 0,
# pp 2. The first axis changes fastest, so its ranks are neighbors.
#
# ### Warm-up: coordinates
#
# **`coordinates(rank, sizes)`** returns a dict, axis → coordinate (坐标). `sizes` is a dict, axis → size, innermost
# first. *About 4 lines.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other sizes and dtypes, other
# > axes in other orders, and axes of one, two, three or more ranks. A group is almost always only part of the world.


# %% exercise="week09.coordinates"
def coordinates(rank, sizes):
    """Returns the coordinate of a rank on every axis; the first axis of `sizes` changes fastest."""
    ### BEGIN SOLUTION
    places = {}
    for name, size in sizes.items():
        rank, places[name] = divmod(rank, size)
    return places
    ### END SOLUTION


# %% check="week09.coordinates" points=1
meshes = [(5, small), (37, {"tp": 8, "dp": 8}), (44, {"pp": 2, "cp": 3, "tp": 4, "dp": 2})]
check("week09.coordinates", coordinates, cases=[{"rank": rank, "sizes": sizes} for rank, sizes in meshes])

# %% [markdown]
# ## 4 · The groups of an axis
#
# **`groups(axes, sizes)`** returns all groups over the given axes combined, as a list of lists of ranks. `axes` is a
# list because, for example, a model with context parallelism reduces its gradients over `["dp", "cp"]`. Sort the
# ranks within a group in ascending order, and the groups by their first rank. *About 5 lines.*
#
# **By hand**, four ranks with tp 2 and dp 2: rank 0 is at (tp 0, dp 0), rank 1 at (1, 0), rank 2 at (0, 1), rank 3 at
# (1, 1). The groups of `["tp"]` are `[[0, 1], [2, 3]]`, those of `["dp"]` are `[[0, 2], [1, 3]]`, and those of both
# together are `[[0, 1, 2, 3]]`.
#
# **Predict:** with tp 8, dp 2, pp 4, how many groups does each axis have?
#
# <details><summary>Answer</summary>
#
# 64 ranks divided by the size of the axis: 8 groups of tp, 32 of dp, 16 of pp.
# </details>


# %% exercise="week09.groups"
def groups(axes, sizes):
    """Returns all groups of ranks that differ only on `axes`; every rank is in exactly one."""
    ### BEGIN SOLUTION
    found, num_ranks = {}, torch.Size(sizes.values()).numel()
    for rank in range(num_ranks):
        others = tuple(place for name, place in coordinates(rank, sizes).items() if name not in axes)
        found.setdefault(others, []).append(rank)
    return list(found.values())
    ### END SOLUTION


# %% check="week09.groups" points=2
asked = [(["tp"], small), (["pp"], small | {"dp": 3}), (["dp", "cp"], {"tp": 2, "cp": 2, "dp": 2})]
check("week09.groups", groups, cases=[{"axes": axes, "sizes": sizes} for axes, sizes in asked])

# %% [markdown]
# ### The wrong group
#
# Four ranks, tp 2 and dp 2, train a small GPT. The second run mixes up two groups of the same size: it averages
# gradients over tp. The shapes match and nothing hangs. **What will the loss do?**


# %%
def losses(mixed_up):
    made = create_process_groups(Mesh(tp=2, dp=2))
    torch.manual_seed(0)
    gpt = model.GPT(model.GPTConfig(layers=2, hidden=32, sequence=16, vocabulary=16, tied=False))
    plan = {"*.up": tensor_parallel.Column(), "*.down": tensor_parallel.Row()}
    tensor_parallel.apply_plan(gpt.blocks, plan, group=made.of("tp"))
    replicas = data_parallel.DataParallel(gpt, group=made.of("tp" if mixed_up else "dp"))
    optimizer = torch.optim.Adam(gpt.parameters(), lr=1e-2)
    tokens = torch.randint(16, (4, 17), generator=torch.Generator().manual_seed(dist.get_rank() // 2))
    seen = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model.next_token_loss(replicas(tokens[:, :-1]), tokens[:, 1:])
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    both = [torch.zeros_like(gpt.head.weight) for _ in range(2)]
    dist.all_gather(both, gpt.head.weight.detach(), group=made.of("dp"))
    return seen[0], seen[-1], (both[0] - both[1]).abs().max().item()


for mixed_up in (False, True):
    first, last, apart = shardlab.run(losses, mixed_up, ranks=4, timeout=60)[0]
    print(f"mixed up: {mixed_up}; loss {first:.2f} -> {last:.2f}; replicas differ by up to {apart:.3f}")

# %% [markdown]
# It falls in both runs, and further in the wrong one! `DataParallel` also broadcasts its initial weights over its
# group. So in the wrong run the two tensor-parallel halves start equal and stay equal, and each replica (副本)
# memorizes its own half of the data and drifts away from the other. A falling loss proves nothing. Test that the
# *replicas are equal*.
#
# ## 5 · Hang hunt: every rank makes every group
#
# `dist.new_group(ranks)` is a collective over the whole world: all ranks, members or not, must call it in the same
# order. Here ranks 0 and 1 start with the rows of a 2×2 mesh, and ranks 2 and 3 with its columns. **Who waits for
# whom?**


# %%
def rows_or_columns():
    rows, columns = [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    for members in rows + columns if dist.get_rank() < 2 else columns + rows:
        dist.new_group(members)


try:
    shardlab.run(rows_or_columns, ranks=4, timeout=4)
except shardlab.RanksFailed as failure:
    print(failure)

# %% [markdown]
# All four wait in `new_group`, on line 4: they disagree about which group they are making, and wait forever. On a
# cluster, such a job starts but never prints its first loss. It is even worse if each rank makes only its own groups:
# then two groups can get the same name and be connected to each other, in some runs and not in others.
#
# **`my_groups(axes, sizes)`** makes all groups for each entry of `axes`, and returns this rank's groups by name:
# `my_groups({"tp": ["tp"], "copies": ["dp", "cp"]}, sizes)` is `{"tp": a group, "copies": a group}`. An axis of size
# 1 also has groups, of one rank each. Use your `groups`. *About 7 lines.* Your own trainer (week 15) starts with this
# call. The check calls the given `sum_on_each_axis`, which sums a number over each of your groups.
#
# **By hand**, tp 2 and dp 2, and ranks 0 to 3 hold 1, 2, 3 and 4. Rank 0's groups are ranks 0 and 1 on tp, and 0 and
# 2 on dp; the sums are `{"tp": 3, "dp": 4}`. Rank 3 gets `{"tp": 7, "dp": 6}`. All four ranks call `dist.new_group`
# four times, in the same order, and each keeps two of the four groups.


# %% exercise="week09.same-order"
def my_groups(axes, sizes):
    """Returns this rank's group for each name in `axes`, such as {"copies": ["dp", "cp"]}; every rank makes all."""
    ### BEGIN SOLUTION
    mine = {}
    for name, chosen in axes.items():
        for members in groups(chosen, sizes):
            group = dist.new_group(members)
            if dist.get_rank() in members:
                mine[name] = group
    return mine
    ### END SOLUTION


def sum_on_each_axis(number, sizes):
    """Given. Sums `number` over this rank's group of each axis, and over all axes except the first combined."""
    axes, sums = {name: [name] for name in sizes} | {"outer": list(sizes)[1:]}, {}
    for name, group in my_groups(axes, sizes).items():
        sums[name] = number.clone()
        dist.all_reduce(sums[name], group=group)
    return sums


# %% check="week09.same-order" points=2
cases = [{"sizes": {"tp": 2, "dp": 2}}, {"sizes": {"tp": 2, "pp": 2}}, {"sizes": {"tp": 2, "dp": 1, "pp": 2}}]
check("week09.same-order", sum_on_each_axis, cases=cases)

# %% [markdown]
# ## 6 · What does each axis send?
#
# Take GPT-3 with TP 8, PP 4, DP 32: 96 layers, hidden 12,288, sequences of 2,048, one per microbatch, bf16. An
# activation (激活值) has 2 · 1 · 2,048 · 12,288 bytes, 50.3 MB. In a ring all-reduce over 8 ranks, each sends 2 · 7/8
# of it. Each layer does two in its forward and two in its backward, and a stage has 24 layers. Gradients are in bf16,
# as in week 3; if they are summed in float32 (week 10), dp sends twice as much.
#
# **By hand:** 2 layers, hidden 4, a sequence of 2, microbatch 1, 100 parameters on each rank, and two ranks on every
# axis. The payload is 2·1·2·4 = 16 bytes. One all-reduce sends 2 · 1/2 · 16 = 16. A stage has one layer, so its
# forward sends twice that, 32. The next stage receives the payload, 16. On dp, a rank sends 2 · 1/2 of 200 bytes of
# gradients, 200.
#
# **`axis_bytes(...)`** returns five numbers: the payload of a tensor-parallel all-reduce; the bytes that each rank
# sends in one; the bytes that it sends on tp in the forward of a microbatch through one stage; to the next stage per
# microbatch; and on dp per step, for `parameters` on this rank. On an axis of size 1, nothing is sent: 0. Only the
# payload is never 0. *About 5 lines.*


# %% exercise="week09.axis-bytes"
def axis_bytes(layers, hidden, sequence, microbatch, parameters, tp, pp, dp):
    """Returns [payload, sent in one all-reduce, tp forward, to the next stage, dp per step]: bytes, in bf16."""
    ### BEGIN SOLUTION
    payload = 2 * microbatch * sequence * hidden
    one = 2 * (tp - 1) / tp * payload
    gradients = 2 * (dp - 1) / dp * 2 * parameters
    return [payload, one, 2 * layers / pp * one, payload if pp > 1 else 0, gradients]
    ### END SOLUTION


# %% check="week09.axis-bytes" points=2
large = {"layers": 96, "hidden": 12288, "sequence": 2048, "microbatch": 1, "parameters": 5_436_297_216}
one_stage = {"layers": 12, "hidden": 768, "sequence": 1024, "microbatch": 4, "parameters": 124_000_000}
cases = [large | {"tp": 8, "pp": 4, "dp": 32}, one_stage | {"tp": 1, "pp": 1, "dp": 4}]
check("week09.axis-bytes", axis_bytes, cases=cases)

# %%
sizes = {name: getattr(gpt3, name) for name in ("layers", "hidden", "sequence")}
sizes |= {"microbatch": 1, "parameters": 5_436_297_216}  # of a rank in a middle stage
names = ("payload", "sent in one", "tp in a forward, and again in its backward", "to the next stage", "dp in a step")
for name, num_bytes in zip(names, axis_bytes(**sizes, tp=8, pp=4, dp=32), strict=True):
    print(f"{name}: {num_bytes / 1e6:,.1f} MB")

# %% [markdown]
# Now take 64 GPUs: TP 8, PP 4, DP 2, on nodes of eight H100s. NVLink carries 450 GB/s each way inside a node; between
# nodes, each GPU has a network card with 50 GB/s. A group with several members on a node uses all their cards, as in
# week 5. There are eight microbatches per step. **Which axis sends the most? And which would take longest if you
# reversed the order, so that tensor-parallel ranks are on eight nodes?**


# %%
def bill(mesh, num_microbatches=8):
    _, _, forward, boundary, gradients = axis_bytes(**sizes, tp=mesh.tp, pp=mesh.pp, dp=mesh.dp)
    sent = {"tp": 2 * forward * num_microbatches, "pp": 2 * boundary * num_microbatches, "dp": gradients}
    for name, num_bytes in sent.items():
        group = mesh.group_of(37, name)
        seconds = num_bytes / link_bytes_per_second(group, costs.find_accelerator("h100"))
        print(f"  {name}: {num_bytes / 1e9:5.1f} GB over {position(group, 8).link:10} {1000 * seconds:6.0f} ms")
    return sent


for order in ("tp-dp-pp", "dp-pp-tp"):
    print(f"order {order}, the groups of rank 37")
    sent = bill(Mesh(tp=8, pp=4, dp=2, order=order))
labels = {
    "tp": "tp, 4 all-reduces per layer",
    "pp": "pp, 2bsh each way per microbatch",
    "dp": "dp, 2(N-1)/N of the gradients",
}
figure, ax = figures.new_axes(7, 2.0)
title = "What rank 37 sends in a step: tensor parallelism wants the fast link"
figures.show(figure, figures.draw_bars(ax, {labels[name]: num_bytes for name, num_bytes in sent.items()}, title=title))

# %% [markdown]
# This is the whole argument for "TP inside a node, PP across, DP last": the axis that sends the most gets the fastest
# link. ("DP last" means that dp gets the remaining GPUs. In the order of ranks, pp comes last, because it sends the
# least.) In the reversed order, tp has one member on each node and so only one card. Its bytes take nine times as
# long, and nothing hides them, because every matrix waits for its all-reduce. In the good order, dp takes longest,
# but it can send gradients while the backward is still running.


# %% tags=["interactive"]
@figures.interact(rank=(0, 63), order=["tp-dp-pp", "tp-pp-dp", "dp-pp-tp"])
def where(rank=21, order="tp-dp-pp"):
    figure, ax = figures.new_axes(8, 3)
    figures.show(figure, figures.draw_groups(ax, Mesh(tp=8, pp=4, dp=2, order=order), rank))


# %% [markdown]
# ## 7 · A step over three axes
#
# Each stage of the pipeline is `y = relu(x @ A) @ B`; y has the shape and dtype of x. A rank holds `A[H, F_tp]`
# (`columns`) and `B[F_tp, H]` (`rows`) of its stage. `inputs` and `targets` are its replica's part of the batch: m =
# `num_microbatches` microbatches of equal size, one after the other.
#
# **`hybrid_step(columns, rows, inputs, targets, num_microbatches, *, tp_group, pp_group, dp_group)`** returns the loss
# and the gradients of `columns` and `rows`. In the last stage, the loss is `mse_loss` of this replica's part, a number
# or a tensor, not averaged over dp; in the others it is None. The gradients must equal those that one process gets from
# the mean loss over the whole batch. Combine week 7's messages in GPipe's order (all forwards, then all backwards),
# week 5's operators `copy_to_tp` (f) and `reduce_from_tp` (g), and week 2's mean. Send no more than this:
#
# - on tp, one all-reduce in each forward and one in each backward (stage 0 needs none in the backward);
# - on pp, an activation and its gradient for each microbatch;
# - on dp, each gradient once, after the last microbatch.
#
# No stage may wait for a gradient before it has sent its second activation. *About 20 lines.*
#
# **By hand**, two stages, two microbatches. On tp: x = `[1]`, rank 0 has the column `[2]` and the row `[1]`, rank 1
# `[3]` and `[1]`; their partial outputs are 2 and 3, and y = `[5]` on both. On pp, in the slots of week 7:
#
# | | 1 | 2 | 3 | 4 | 5 | 6 |
# |---|---|---|---|---|---|---|
# | stage 0 | F0, sends y | F1, sends y | | | gets a gradient, B0 | B1 |
# | stage 1 | | gets x, F0 | gets x, F1 | B0, sends `x.grad` | B1, sends | |
#
# In slot 2 both stages work, on different microbatches. Each of the m losses counts 1/m. Finally, on dp, in every
# stage: sum the gradients of the replicas and divide by the number of replicas.
#
# **Predict first:** which of the three groups does each line need? Write it next to the line before you run the cell.
#
# <details><summary>Hint 1: the stage in one line</summary>
#
# `y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)`
# </details>
#
# <details><summary>Hint 2: the way back</summary>
#
# Call `requires_grad_()` on the tensor that you receive from the previous stage, and keep `(x, y)`. Later,
# `y.backward(gradient)`, with the gradient from the next stage, fills `x.grad`: send it to the previous stage. The
# forward send is `dist.send(y.detach(), group=pp_group, group_dst=stage + 1)`.
# </details>

# %%
from mine.tensor_parallel import copy_to_tp, reduce_from_tp  # your f and g of week 5; the course's until you solve it


# %% exercise="week09.hybrid-step"
def hybrid_step(columns, rows, inputs, targets, num_microbatches, *, tp_group, pp_group, dp_group):
    """Runs one step of this rank's stage; returns the loss (None before the last stage) and the two gradients."""
    stage, last = dist.get_rank(pp_group), dist.get_world_size(pp_group) - 1
    columns, rows = columns.clone().requires_grad_(), rows.clone().requires_grad_()
    parts = zip(inputs.chunk(num_microbatches), targets.chunk(num_microbatches), strict=True)
    kept = []
    ### BEGIN SOLUTION
    for part, target in parts:
        x = part.clone()
        if stage > 0:
            dist.recv(x, group=pp_group, group_src=stage - 1)
            x.requires_grad_()
        y = reduce_from_tp(torch.relu(copy_to_tp(x, group=tp_group) @ columns) @ rows, group=tp_group)
        if stage < last:
            dist.send(y.detach(), group=pp_group, group_dst=stage + 1)
        kept.append((x, y if stage < last else mse_loss(y, target) / num_microbatches))
    for x, y in kept:
        gradient = None
        if stage < last:
            gradient = torch.empty_like(y)
            dist.recv(gradient, group=pp_group, group_src=stage + 1)
        y.backward(gradient)
        if stage > 0:
            dist.send(x.grad, group=pp_group, group_dst=stage - 1)
    for weight in (columns, rows):
        dist.all_reduce(weight.grad, group=dp_group)
        weight.grad /= dist.get_world_size(dp_group)
    return sum(y for _, y in kept) if stage == last else None, columns.grad, rows.grad
    ### END SOLUTION


# %% check="week09.hybrid-step" points=3
each = {"numbers": 4, "rows": 3}
four = each | {"sizes": {"tp": 2, "dp": 1, "pp": 2}, "microbatches": 3, "part": "one replica"}
eight = each | {"sizes": {"tp": 2, "dp": 2, "pp": 2}, "microbatches": 2, "part": "replicas"}
check("week09.hybrid-step", hybrid_step, cases=[four, eight])

# %% [markdown]
# ## 8 · Predict, then measure
#
# **Bytes.** The package's trainer puts a GPT with four layers on eight ranks as tp 2, pp 2, dp 2: 1F1B with two
# microbatches of 2 × 16 tokens, hidden 32, bf16. Predict each axis with your `axis_bytes`, then compare.


# %%
def step_measured():
    made = create_process_groups(Mesh(tp=2, pp=2, dp=2))
    gpt = model.GPT(model.GPTConfig(layers=4, hidden=32, sequence=16, vocabulary=16, tied=False)).bfloat16()
    settings = hybrid.Settings(num_microbatches=2, max_norm=1.0)
    trainer = hybrid.MeshTrainer(gpt, made, lambda p: torch.optim.SGD(p, lr=0.1), settings)
    tokens = torch.randint(16, (4, 17), generator=torch.Generator().manual_seed(0))
    with meter.record() as bill:
        trainer.step(tokens[:, :-1], tokens[:, 1:])
    return sum(p.numel() for p in trainer.masters()), hybrid.sent_by_axis(bill.events, made)


num, sent = shardlab.run(step_measured, ranks=8, timeout=60)[0]
_, _, forward, boundary, gradients = axis_bytes(4, 32, 16, 2, num, tp=2, pp=2, dp=2)
print("predicted:", {"tp": 2 * 2 * forward, "pp": 2 * boundary, "dp": gradients})
print("measured: ", sent)

# %% [markdown]
# They are equal to the byte. The rest is two short messages over all eight ranks: one compares the batches of the
# ranks before the step, and one sums the squared norm for clipping (section 9) and the loss.
#
# **Seconds.** You have four GPUs, a batch of eight microbatches that take 30 ms each on one GPU, and 400 MB of
# gradients. There are three ways to share the work: dp 4, dp 2 × pp 2, pp 4. PCIe carries 32 GB/s. A pipeline of p
# stages idles (p−1) of m+p−1 slots; dp adds its all-reduce. The ranks sleep instead of computing, with all times
# stretched by eight so that this machine keeps up. **Which of the three is fastest over PCIe? And over NVLink, at 450
# GB/s?**

# %%
step = {"num_microbatches": 8, "forward_seconds": 0.010, "gradient_bytes": 400e6}
links, share_of_one_gpu = {"PCIe": 32e9, "NVLink": 450e9}, 8 * 0.030 / 4
for mesh in (Mesh(dp=4), Mesh(dp=2, pp=2), Mesh(pp=4)):
    due = {name: hybrid.predicted_seconds(mesh, **step, bytes_per_second=speed) for name, speed in links.items()}
    slept = step | {"bytes_per_second": links["PCIe"], "slower": 8}
    by_rank = shardlab.run(
        lambda mesh=mesh, slept=slept: hybrid.emulated_seconds(mesh, **slept), ranks=4, observe=False
    )
    seconds = max(by_rank)
    text = ", ".join(f"{share_of_one_gpu / formula:.1%} over {name}" for name, formula in due.items())
    print(f"dp {mesh.dp} x pp {mesh.pp}: predicted {text}; measured {share_of_one_gpu / seconds:.1%} over PCIe")

# %% [markdown]
# Efficiency (扩展效率) is the time on one GPU divided by four times the time on four. Over PCIe, all three should be
# between 70 and 85%, the range that tutorials quote; a busy machine loses a few points. Over NVLink, dp rises to
# almost 100% and pp does not: a faster link does not shrink the bubble. More microbatches do.
#
# ## 9 · Bug hunt: a norm over mixed axes
#
# Clipping (梯度裁剪) needs the norm of the *whole model's* gradient. Two tensor-parallel ranks each hold `[3, 0]` of
# a matrix that is split, and the same `[0, 4]` of a LayerNorm that is not. The buggy code squares everything and sums
# over tp. **What does it report, and what is the right answer?**


# %%
def norm_as_found(gradients):
    total = sum((gradient.square().sum() for gradient in gradients), torch.zeros(()))
    dist.all_reduce(total)
    return total.sqrt().item()


print(shardlab.run(norm_as_found, [torch.tensor([3.0, 0]), torch.tensor([0.0, 4])], ranks=2))
print("one process:", torch.tensor([3.0, 0, 3, 0, 0, 4]).norm().item())

# %% [markdown]
# It counts the LayerNorm on both ranks; with tp 8 it would count it eight times. The larger tp is, the more it clips,
# so two runs that should agree do not.
#
# **`whole_norm(gradients, is_split, *, tp_group, pp_group)`** returns the norm, a number or a tensor, on every rank.
# `is_split[i]` is True if tensor-parallel ranks hold different parts of gradient i, and False if they all hold the same
# gradient. Stages hold different layers; replicas have equal gradients at this point. Square in float32, and send
# numbers, not gradients. *About 7 lines.*


# %% exercise="week09.whole-norm"
def whole_norm(gradients, is_split, *, tp_group, pp_group):
    """Returns the norm of one model's gradients, counting each number of the model once."""
    ### BEGIN SOLUTION
    is_first, total = dist.get_rank(tp_group) == 0, torch.zeros(())
    for gradient, split in zip(gradients, is_split, strict=True):
        if split or is_first:
            total += gradient.float().square().sum()
    dist.all_reduce(total, group=tp_group)
    dist.all_reduce(total, group=pp_group)
    return total.sqrt()
    ### END SOLUTION


# %% check="week09.whole-norm" points=2
by_hand = {"sizes": {"tp": 2, "dp": 1, "pp": 1}, "numbers": 2, "by_hand": True}
four = {"sizes": {"tp": 4, "dp": 1, "pp": 1}, "numbers": 384, "dtype": "bfloat16", "alike": True}
cases = [by_hand, {"sizes": small, "numbers": 100}, four, {"sizes": dict.fromkeys(small, 1), "numbers": 100}]
check("week09.whole-norm", whole_norm, cases=cases)

# %% [markdown]
# ## 10 · Read real code
#
# Open `labs/shardlab/mesh/` and `hybrid/`, and in your installed `megatron-core`: `megatron/core/parallel_state.py`
# and `megatron/core/tensor_parallel/layers.py`.
#
# 1. `"default_order"`: which `order` does Megatron's `initialize_model_parallel` use by default? A string.
# 2. `"counts"`: if tensor-parallel ranks hold copies of a parameter, the norm counts one copy. Which rank's, according
#    to `param_is_not_tensor_parallel_duplicate`? A number.
# 3. `"order"`: in which order does `create_process_groups` pass the axes of a `Mesh` in the default order to torch's
#    `init_device_mesh`, as `mesh_dim_names`? A list of four names.
#
# And for yourself:
#
# <details><summary>Why does Megatron number the experts' groups separately?</summary>
#
# Experts need no additional ranks: the same tp · cp · dp ranks of a stage are divided a second time, as expert tensor
# × expert × expert data parallel. `Mesh(tp=2, dp=4, ep=4, etp=1)` has eight ranks. Try `shardlab mesh --tp 2 --dp 4
# --ep 4 --etp 1`.
# </details>

# %% exercise="week09.reading"
reading_answers = {"default_order": None, "counts": None, "order": None}
### BEGIN SOLUTION
reading_answers["default_order"] = "tp-cp-ep-dp-pp"
reading_answers["counts"] = 0
reading_answers["order"] = ["pp", "dp", "cp", "tp"]
### END SOLUTION

# %% check="week09.reading" points=1
check("week09.reading", reading_answers)

# %% [markdown]
# ## 11 · Interview: draw the groups of rank 37
#
# 64 GPUs on nodes of eight, TP 8, PP 4, DP 2, in Megatron's order. **`groups_of_rank_37()`** returns a dict: `"tp"`,
# `"dp"` and `"pp"` are the ranks of each group, and `"leaves"` is a list of the axes whose group leaves the node. *A
# few lines with your own function, or by hand.*


# %% exercise="week09.rank-37"
def groups_of_rank_37():
    """Returns the groups of rank 37 of 64, and the axes on which it talks to other nodes."""
    ### BEGIN SOLUTION
    sizes = {"tp": 8, "dp": 2, "pp": 4}
    found = {name: next(group for group in groups([name], sizes) if 37 in group) for name in sizes}
    return found | {"leaves": [name for name, group in found.items() if any(rank // 8 != 37 // 8 for rank in group)]}
    ### END SOLUTION


# %% check="week09.rank-37" points=1
check("week09.rank-37", groups_of_rank_37)

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: the three groups and how you found them; what rank
# 37 sends on each and over which link (section 6); the reason for this order; your changes for nodes of four GPUs.

# %% [markdown] manual="week09.interview" points=2
# ### BEGIN SOLUTION
# 37 = 5 + 8 · 0 + 16 · 2, so rank 37 is at tp 5, dp 0, pp 2. Changing one coordinate at a time gives tp 32 to 39, dp
# 37 and 45, pp 5, 21, 37, 53. The tp group is node 4 itself; dp and pp leave it.
#
# On tp it sends 8.46 GB per microbatch, 68 GB per step of eight, over NVLink: 150 ms. On pp it sends 0.8 GB per step
# and on dp 10.9 GB, both over InfiniBand: 16 and 217 ms, and the latter can overlap with the backward. The order puts
# tp innermost because it sends the most and nothing hides it; over InfiniBand the same bytes would take nine times as
# long.
#
# With four GPUs per node, TP 8 would cross nodes, so I would choose TP 4 and PP 8. That doubles the number of stages,
# and with it the number of microbatches needed to keep the bubble small.
#
# Full marks: three right groups with the digits, bytes and link of each axis, a reason for the order, TP 4 for nodes
# of four.
# ### END SOLUTION

# %% [markdown]
# ## 12 · Recap
#
# <details><summary>Over which group are the gradients of a LayerNorm reduced? And its norm?</summary>
#
# Its gradients are reduced over dp (and cp) only; with f in place, tensor-parallel ranks already have the same
# gradients. The norm counts it once per stage, not once per tensor-parallel rank.
# </details>
#
# <details><summary>1,024 ranks, TP 8, PP 4, DP 32. How many groups are made, and how many does a rank belong
# to?</summary> 128 of tp, 256 of pp, 32 of dp: all ranks make all 416, and each belongs to three. </details>
#
# <details><summary>A job hangs before its first step, on some sizes only. What do you suspect?</summary>
#
# A loop over groups whose order depends on the rank.
# </details>
#
# ## 13 · Take away
#
# > **One.** A rank is a number with digits. Changing one digit gives the members of a group.
#
# > **Two.** Every axis has its own payload, its own time and its own link: tp sends activations in every layer, pp
# > sends them at stage boundaries, and dp sends gradients once. Put the axis that sends the most innermost.
#
# > **Three.** A wrong group does not crash. Compare replicas with each other, gradients with those of one process,
# > and the bytes of every axis with their formula.
#
# ## 14 · Going further
#
# - Narayanan et al., *Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM*, arXiv
#   2104.04473. Look for: section 3, the three takeaways on how axes interact, and section 5.4's measurements of them.
# - Smith et al., *Using DeepSpeed and Megatron to Train Megatron-Turing NLG 530B*, arXiv 2201.11990. Look for: which
#   axis is inside a node, and which batch size the layout requires.
# - Zhao et al., *PyTorch FSDP*, arXiv 2304.11277. Look for: hybrid sharding, and the factor F that turns it into DDP
#   or into full sharding.
# - **Labs 1 and 2**: `labs/README.md` says how to run `tp_simulation.py`, and Megatron's own tensor-parallel layers.
#   `docs/one-screen/` shows a whole step with tensor parallelism, and one with all three axes, on one screen each.
#
# **An experiment, not graded.** Train the GPT of section 8 with `order="dp-pp-tp"`. How does the loss change, and how
# do the bytes that cross between nodes of four?

# %% [markdown]
# ## Optional · Shards inside a node, and Llama 3's order
#
# ### Challenge: two meanings of data parallel
#
# ZeRO-3 over all ranks gathers weights across the slow links twice per step. **Hybrid sharding** (HSDP) splits dp
# into two axes: the L ranks of a node shard the weights, and each of the M nodes holds a copy.
#
# **`hsdp_step(shard, inputs, lr, *, node_group, cross_group)`** returns this rank's new shard. The model is a vector
# `w[P_node]`, a rank's loss is `(inputs @ w).square().mean()`, and the step is plain gradient descent on the mean
# loss over all ranks of both groups. *About 9 lines.*
#
# **By hand**, two nodes of two ranks, w = `[1, 2]`, lr = 0.1. Both ranks of a node gather `[1, 2]`. Suppose their
# gradients are `[1, 2]` and `[3, 4]` on one node, and `[5, 6]` and `[7, 8]` on the other. The reduce-scatter inside a
# node leaves 4 and 6 on the first, and 12 and 14 on the second. Across nodes, the first shards sum to 16 and the
# second ones to 20, so the means over four ranks are 4 and 5. The new shards are 1 − 0.4 = 0.6 and 2 − 0.5 = 1.5.
#
# The budget per rank, where S is the size of the whole vector in bytes:
#
# | axis | bytes sent | collectives |
# |---|---|---|
# | inside the node | 2(L−1)/L · S | one `all_gather_single`, one `reduce_scatter_single` |
# | across nodes | 2(M−1)/M · S/L | one `all_reduce` of a shard |
#
# The check counts the bytes that actually cross the wire.


# %% exercise="week09.hsdp"
def hsdp_step(shard, inputs, lr, *, node_group, cross_group):
    """Returns this rank's shard after one step; weights are sharded over node_group, replicated over cross_group."""
    ### BEGIN SOLUTION
    per_node, num_nodes = dist.get_world_size(node_group), dist.get_world_size(cross_group)
    weights = shard.new_empty(per_node * shard.numel())
    dist.all_gather_single(weights, shard, group=node_group)
    (inputs @ weights.requires_grad_()).square().mean().backward()
    mine = torch.empty_like(shard)
    dist.reduce_scatter_single(mine, weights.grad, group=node_group)
    dist.all_reduce(mine, group=cross_group)
    return shard - lr * mine / (per_node * num_nodes)
    ### END SOLUTION


# %% check="week09.hsdp" points=3 optional=true
check("week09.hsdp", hsdp_step)

# %% [markdown]
# ### Llama 3's order, and what swapping costs
#
# Llama 3 orders its axes `[TP, CP, PP, DP]`, innermost first, by the bandwidth and latency that each needs (arXiv
# 2407.21783, section 3.3.2). Test that claim with the link model of section 6.
#
# **`axis_seconds(order, sizes, sent, per_node, nvlink, network)`** returns a dict, axis → seconds for its `sent` bytes
# in rank 0's group. All members on one node: `nvlink` bytes per second. Otherwise, the cards of the members on node 0
# carry `network` each, but together no more than `nvlink`. An axis of size 1 takes 0. *About 8 lines.*
#
# **By hand**, the paper's example, 16 GPUs with 2 on each axis: on nodes of 4, tp is ranks 0 and 1, cp 0 and 2, pp 0
# and 4, dp 0 and 8. tp's 80 GB over NVLink at 400 GB/s take 0.2 s. In the reversed order its ranks are 0 and 8: one
# card at 50 GB/s takes 1.6 s.


# %% exercise="week09.order"
def axis_seconds(order, sizes, sent, per_node, nvlink, network):
    """Returns the seconds of each axis, for axes in `order`, innermost first."""
    ### BEGIN SOLUTION
    stride, seconds = 1, {}
    for name in order:
        size = sizes[name]
        here = sum(stride * place < per_node for place in range(size))
        speed = nvlink if here == size else min(nvlink, here * network)
        seconds[name] = sent[name] / speed if size > 1 else 0
        stride *= size
    return seconds
    ### END SOLUTION


# %% check="week09.order" points=2 optional=true
check("week09.order", axis_seconds)

# %%
from dataclasses import replace

from shardlab.costs.axis_traffic import traffic_of_step

llama3 = {"tp": 8, "cp": 16, "pp": 16, "dp": 8}  # table 4: 16,384 GPUs, sequences of 131,072
layout = costs.Layout(**llama3, num_microbatches=16, virtual=7, sequence_parallel=True, zero=2)
sent = traffic_of_step(replace(costs.find_model("llama3-405b"), sequence=131072), layout).by_axis
for order in (["tp", "cp", "pp", "dp"], ["cp", "tp", "pp", "dp"], ["tp", "pp", "cp", "dp"], ["tp", "cp", "dp", "pp"]):
    seconds = axis_seconds(order, llama3, sent, 8, 450e9, 50e9)
    text = ", ".join(f"{name} {one:.2f}" for name, one in seconds.items())
    print(f"{' '.join(order)}: {text}; together {sum(seconds.values()):.2f} s")

# %% [markdown]
# tp must be innermost: anywhere else, the same bytes take nine times as long. But the other swaps cost *nothing* here,
# because tp already fills the node and all other axes have one card. Our model has a single network. Meta's reason is
# about what it leaves out: several hops with more latency, and dp can hide behind the work.
