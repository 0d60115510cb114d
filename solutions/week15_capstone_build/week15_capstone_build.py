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
# # Week 15 · Capstone, build (综合实践): five axes that survive
#
# *3 hours · 1 to 8 ranks · no GPU needed*
#
# Everything at once: one small model over data, pipeline, context, tensor and expert parallel ranks. It must do what
# one rank does, up to rounding. Then a rank is killed, and training goes on, on *other* axes.
#
# After this week you can
#
# - [ ] **build** what holds five axes together: the sums behind the backward, the data order, the checkpoint;
# - [ ] **find** the axis that broke a training from gradients alone, where the loss tells nothing;
# - [ ] **decide** how often to save, and which recipe fits under a cap.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>Over which ranks is the gradient of a dense weight added up, and over which an expert's?</summary>
#
# Over dp and cp together: they have other tokens and the same weight. An expert's over edp, the ranks with a copy of
# it. </details>
#
# <details><summary>Under sequence parallelism, what is wrong with a LayerNorm's gradient?</summary>
#
# Each tensor parallel rank has seen a part of the sequence. The gradient is a part of a sum over tp.
# </details>
#
# <details><summary>Two ranks have 3 and 9 valid tokens. May the loss be the mean of their means?</summary>
#
# No. The three tokens would count three times as much. Add up the losses, and divide by 12.
# </details>

# %%
from random import Random

import torch
import torch.distributed as dist
from shardlab import RanksFailed, costs, figures, hybrid, mesh, run, train

from autograder import check

# %% [markdown]
# ## 1 · The problem in numbers
#
# Mixtral 8x7B has 46.7 billion parameters. With Adam and mixed precision each takes 18 bytes, if gradients are summed
# in float32 as in week 10. **How many of the five axes does it take until a rank's states fit into 80 GB?** Guess,
# then run.

# %%
mixtral = costs.find_model("mixtral-8x7b")
rounds = {
    "one rank": costs.Layout(),
    "dp 8": costs.Layout(dp=8),
    "dp 8, tp 2": costs.Layout(dp=8, tp=2),
    "dp 8, tp 2, pp 4": costs.Layout(dp=8, tp=2, pp=4),
    "dp 8, tp 2, pp 4, ep 8": costs.Layout(dp=8, tp=2, pp=4, ep=8),
}
rows = {name: vars(costs.state_bytes(mixtral, layout, gradient_bytes=4)) for name, layout in rounds.items()}
figure, ax = figures.new_axes(7, 2.6)
title = "Copies save nothing, and tp little: pp and ep cut the states of Mixtral until they fit"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# dp does not shrink a bar, and cp would not either: both split *tokens*, not weights. tp cuts what is dense, and here
# the experts, 97% of Mixtral, stay whole. pp and ep split those. A trainer has to know which is which, for every
# tensor.
#
# ## 2 · The picture first
#
# Eight ranks: tp 2, cp 2, pp 2. Which ranks have rank 5's weights, and other tokens? Which have its tokens, and other
# columns? Which has the stage before?

# %%
figure, ax = figures.new_axes(8, 1.9)
figures.show(figure, figures.draw_groups(ax, mesh.Mesh(tp=2, cp=2, pp=2), 5, ranks_per_node=4))

# %% [markdown]
# Experts need no ranks of their own. The ranks of a stage are grouped a second way for them: **ep** (专家并行) ranks
# have different experts, and **edp** ranks copies of the same ones. (Here dp · cp = ep · edp.)
#
# **Notation.** `g{U_dp,cp}` is a gradient that is still to be added up over dp and cp. A norm's is `g{U_dp,cp,tp}`, an
# expert's `g{U_edp}`: the tokens of the other ep ranks are in it already, the all-to-all's backward has brought them.
#
# ## 3 · The bill of five axes
#
# A stage has layers/pp layers. Each rank has `tokens` tokens of a microbatch (cp has split them already), each h
# numbers in bf16, 2 bytes each. tp splits each expert, too, where section 1 left them whole. In one forward
#
# - **tp** adds up partial sums, twice per layer: an all-reduce of tokens · h numbers, or the same bytes in two halves;
# - **cp** passes keys and values round a ring: to each of cp − 1 others, 2 · tokens · kv/tp numbers per layer;
# - **ep** sends rows there and back: of tokens/tp tokens, k copies each, a share of (ep − 1)/ep leaves.
#
# Once per step gradients are added up: of dense/(tp · pp) numbers over dp · cp ranks, and of experts/(tp · pp · ep)
# numbers over dp · cp/ep.
#
# **By hand.** tp 2, cp 2, ep 2, dp 1, pp 1; one layer, h = 4, kv = 2, 4 tokens, k = 1; 8 dense numbers, 16 of experts.
# A ring all-reduce sends 2 · (n − 1)/n times its bytes (week 1), for two ranks exactly once.
#
# | | |
# |---|---|
# | copies of a dense weight, of an expert | 1 · 2 = 2, and 2/2 = 1 |
# | tp: two all-reduces of 4 · 4 numbers, 32 bytes each | 64 |
# | cp: keys and values, 4 · 2/2 numbers each, to one other rank | 16 |
# | ep: 4/2 tokens, one copy, 4 wide: 16 bytes, half of them leave, there and back | 16 |
# | gradients: 8/2 dense numbers, 8 bytes, over two ranks; experts have no copies | 8 |
#
# ### Warm-up: six numbers
#
# **`five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts)`** returns: how many ranks add up
# a dense gradient; how many an expert's; bytes that a rank sends in a forward on tp, on cp, on ep; and bytes for all
# gradients, by ring all-reduces in bf16. *About 8 lines.*
#
# > **What the grade varies.** Checks show some cases; the grade draws fresh ones: other numbers, meshes of one rank to
# > eight, axes of one, two, three and more, ranks without tokens, and every bug in another order.


# %% exercise="week15.bill"
def five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts):
    """[ranks, ranks, bytes on tp, on cp, on ep, bytes of gradients]; bf16."""

    ### BEGIN SOLUTION
    def all_reduce(ranks, num_bytes):
        return 2 * (ranks - 1) / ranks * num_bytes

    copies, expert_copies, own = dp * cp, dp * cp // ep, layers / pp
    on_tp = own * 2 * all_reduce(tp, 2 * tokens * hidden)
    on_cp = own * (cp - 1) * 2 * 2 * tokens * kv / tp
    on_ep = own * 2 * 2 * tokens / tp * k * hidden * (ep - 1) / ep
    gradients = all_reduce(copies, 2 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp / ep)
    return [copies, expert_copies, on_tp, on_cp, on_ep, gradients]
    ### END SOLUTION


# %% check="week15.bill" points=1
sizes = {"layers": 32, "hidden": 4096, "kv": 1024, "tokens": 4096, "k": 2}
sizes |= {"dense": 1_605_000_000, "experts": 45_097_000_000}
axes = [{"tp": 2, "cp": 2, "ep": 4, "dp": 8, "pp": 4}, {"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 1}]
check("week15.bill", five_axis_bill, cases=[mesh | sizes for mesh in axes])

# %% [markdown]
# ## 4 · From one rank to five axes
#
# Now on real ranks: a GPT of two blocks with four experts and a tied embedding, one step. Each round adds an axis or
# trades one: two ranks on each of the five at once would be 16.
# **Predict:** in which digit does the loss of eight ranks differ from that of one?


# %%
known = {}  # what ran once need not run again


def gradients_on(suspect=hybrid.NOTHING, **sizes):
    """Loss and gradients by name of one step on a mesh: real ranks, one call."""
    of_ranks = mesh.Mesh(**sizes)
    if (suspect, of_ranks) not in known:
        found = run(hybrid.gradients_of_suspect, suspect, of_ranks, ranks=of_ranks.world, timeout=60)
        known[suspect, of_ranks] = found[0][0], hybrid.joined([blocks for _, blocks in found])
    return known[suspect, of_ranks]


loss, one_rank = gradients_on()
largest = max(g.abs().max() for g in one_rank.values())
print(f"one rank: loss {loss:.6f}, {len(one_rank)} gradients, the largest number {largest:.3f}")
first_rounds = [{"dp": 2}, {"dp": 2, "tp": 2}, {"dp": 2, "tp": 2, "pp": 2}]
for sizes in [*first_rounds, {"cp": 2, "tp": 2, "pp": 2}, {"cp": 2, "tp": 2, "pp": 2, "ep": 2}]:
    loss, found = gradients_on(**sizes)
    off = max((found[name] - one_rank[name]).abs().max() for name in one_rank)
    print(f"{sizes}: loss {loss:.6f}, gradients differ by at most {off / largest:.0e} of the largest")

# %% [markdown]
# float32 has about seven digits, so this is the same result. The rest of this page is what makes it so.
#
# **And the bytes?** A recipe is a training as data. Four blocks without experts (a router that is not even would send
# other numbers of rows than the formula says); step 3 is measured: each axis beside its formula, and the memory of the
# fullest rank.


# %%
def recipe_of(sizes, folder="", steps=4, **more):
    model = {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "tied": False}
    step = {"batch": 8, "microbatches": 2, "zero": 1}
    experts = {"experts": 4, "width": 32} if folder else {}
    tables = {"model": model, "experts": experts, "mesh": sizes, "step": step}
    log = {"tensorboard": False, "figure": False, "measure": 0 if folder else 3}
    rate = {"peak": 0.003, "shape": "constant"}
    return train.from_tables(tables | {"run": {"steps": steps, "folder": folder}, "log": log, "rate": rate} | more)


summaries = run(train.train, recipe_of({"cp": 2, "tp": 2, "pp": 2}), ranks=8, timeout=90)

# %% [markdown]
# ## 5 · The data order knows no mesh
#
# A run on dp = 4 that goes on with dp = 2 must read what it would have read. So what a step reads may depend on the
# seed and the step, and on nothing else: not on dp, not on the state of a random generator.
#
# **By hand.** 5 sequences, batches of 4. Epoch 0 is a permutation of 5, say `3 0 4 1 2`; epoch 1 another, `1 4 2 0 3`.
# Step 0 reads `3 0 4 1`, step 1 `2 | 1 4 2`: a batch may cross into the next epoch. With dp = 2, replica 1 of step 1
# reads `4 2`.
#
# **`sequences(seed, step, replica, dp, batch, num)`** returns the list of batch/dp numbers of sequences, 0 to num − 1,
# that a replica reads. Every epoch reads each once, in an order of its own; another seed gives other orders. (A new
# generator for each epoch, such as `Random(f"{seed} {epoch}")`, keeps no state; seed 7 in epoch 1 is not seed 8 in
# epoch 0.) *About 7 lines.*


# %% exercise="week15.data-order"
def sequences(seed, step, replica, dp, batch, num):
    """The numbers of the sequences of one replica in one step; the r-th part of the step's batch is replica r's."""

    ### BEGIN SOLUTION
    def place(number):
        epoch, at = divmod(number, num)
        order = list(range(num))
        Random(f"{seed}/{epoch}").shuffle(order)
        return order[at]

    first = step * batch + replica * (batch // dp)
    return [place(number) for number in range(first, first + batch // dp)]
    ### END SOLUTION


def order_of(calls):
    """Given. The answers to many calls."""
    return [sequences(*call) for call in calls]


# %% check="week15.data-order" points=2
small = {"seed": 7, "num": 20, "batch": 8, "dp": [1, 2, 4]}
check("week15.data-order", order_of, cases=[small, {"seed": 3, "num": 24, "batch": 6, "dp": [1, 3]}])

# %% [markdown]
# ## 6 · The sums behind the backward
#
# The backward is over. Each rank has gradients of the *sum* of its own valid tokens' losses. Wanted: those of the mean
# over all valid tokens of all ranks.
#
# **By hand.** dp 2, tp 2. Ranks 0 and 1 have 3 valid tokens, ranks 2 and 3 have 1. A dense weight's gradients are 6, 6,
# 2, 2: tp ranks have the same. A norm's are 4, 2, 1, 1: each has seen half of the sequence. Both become (6 + 2)/4 = 2:
# the sum goes over dp, for the norm over tp as well, and the divisor is the 4 tokens of dp 0 and dp 1. An expert's 3
# and 5 on two edp ranks become (3 + 5)/4 = 2, with the same divisor. A tied weight has two gradients, 5 on the first
# stage and 3 on the last; add these first: its replica has 8.
#
# **`finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends)`** returns a list of new gradients. A kind is
# `"dense"`, `"split"` (a tp rank has a part of its own), `"norm"`, `"expert"` or `"tied"` (first and last stage each
# use the whole weight). `tokens` is this rank's number of valid tokens, possibly 0. `copies` is the group over dp and
# cp. Send no gradient more than once over a group. *About 10 lines.*


# %% exercise="week15.finish"
def finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends):
    """Gradients of the mean over all valid tokens; the given tensors stay as they are."""
    ### BEGIN SOLUTION
    valid = torch.tensor([float(tokens)], dtype=torch.float64)
    dist.all_reduce(valid, group=copies)
    partial_over = {"norm": tp, "tied": ends}
    finished = []
    for gradient, kind in zip(gradients, kinds, strict=True):
        total = gradient.clone()
        if kind in partial_over:
            dist.all_reduce(total, group=partial_over[kind])
        dist.all_reduce(total, group=edp if kind == "expert" else copies)
        finished.append(total / valid.item())
    return finished
    ### END SOLUTION


# %% check="week15.finish" points=3
meshes = [{"dp": 2}, {"tp": 2, "cp": 2, "ep": 2}, {"pp": 2, "cp": 2}]
check("week15.finish", finish_gradients, cases=[{"mesh": mesh, "numbers": 250} for mesh in meshes])

# %% [markdown]
# ## 7 · Hunt: which axis broke the loss?
#
# Seven suspects train the same step. One is healthy. Each of the others has a bug that a public code has had, and their
# logs look alike. These are the threads, in no particular order:
#
# - [Megatron-LM#1446](https://github.com/NVIDIA/Megatron-LM/issues/1446): a sum that was forgotten
# - [DeepSpeed#5618](https://github.com/deepspeedai/DeepSpeed/issues/5618): a factor, hidden by Adam
# - [Megatron-LM#7513](https://github.com/NVIDIA/Megatron-LM/pull/7513): a mean of means
# - [piper#13](https://github.com/uw-syfi/piper/issues/13): two halves of one weight
# - [Automodel#3530](https://github.com/NVIDIA-NeMo/Automodel/pull/3530): gradients thrown away between microbatches
# - [pytorch#144530](https://github.com/pytorch/pytorch/issues/144530): hooks that a split backward passes by
#
# You may train each suspect on any mesh of up to four ranks and see its gradients. **Change one axis at a time**: what
# differs then is that axis's fault. Two traps. ep has no ranks of its own, so with what do you compare it? And right
# sums in another order differ by rounding: one gradient, a key's bias, is zero by theory, so every digit of it is
# noise.
#
# **`culprit(train)`** returns the guilty axis, or `None`, and the sorted list of kinds of weights whose gradients are
# wrong, such as `("tp", ["norm"])`. `train(tp=2)` returns gradients by name; an axis left out is 1. **By hand**: on one
# rank a norm's gradient is 4 and an expert's 6; with tp 2 they are 1 and 6, on all other axes 4 and 6. The answer is
# `("tp", ["norm"])`; without a bug it is `(None, [])`. *About 10 lines.*


# %% exercise="week15.which-axis"
def kind_of(name):
    """Given. The kind of a weight."""
    if name == "token.weight":
        return "tied"
    return "norm" if "norm" in name else "expert" if "experts" in name else "dense"


def culprit(train):
    """(axis or None, kinds whose gradients are wrong)."""
    ### BEGIN SOLUTION
    largest = max(one.abs().max() for one in train().values())
    pairs = {axis: ({}, {axis: 2}) for axis in ("tp", "pp", "cp", "dp")}
    pairs["ep"] = {"dp": 2}, {"dp": 2, "ep": 2}
    for axis, (before, after) in pairs.items():
        good, found = train(**before), train(**after)
        wrong = [name for name in good if (found[name] - good[name]).abs().max() > 1e-3 * largest]
        if wrong:
            return axis, sorted({kind_of(name) for name in wrong})
    return None, []
    ### END SOLUTION


def culprit_in(table):
    """Given. The same from a table of gradients on all meshes of up to four ranks."""
    return culprit(lambda tp=1, pp=1, cp=1, dp=1, ep=1: table[f"tp {tp}, pp {pp}, cp {cp}, dp {dp}, ep {ep}"])


# %% check="week15.which-axis" points=3
check("week15.which-axis", culprit_in, cases=[{"suspect": number} for number in range(7)])

# %% [markdown]
# The check trains the suspects in one process. Here two of them train on real ranks, with the bug planted in the
# trainer of section 4. What do their losses say?

# %%
for number in (0, 3):
    suspect = hybrid.FAULTS[number]
    losses = [f"{gradients_on(suspect, **mesh)[0]:.4f}" for mesh in ({}, {"tp": 2}, {"pp": 2})]
    print(f"losses on one rank, tp 2, pp 2: {', '.join(losses)}; guilty:", end=" ")
    print(culprit(lambda suspect=suspect, **mesh: gradients_on(suspect, **mesh)[1]), f"({suspect})")

# %% [markdown]
# The losses agree in every printed digit, and yet gradients are partial sums: ten of the first suspect's, one of the
# second's. Nobody would notice in a month of training.
#
# ## 8 · A checkpoint for any mesh
#
# A rank is lost, and the mesh that is left has other axes. So a checkpoint must not say *rank 3 had this*, but *these
# rows and columns of that tensor of the whole model*. Finding 12 of
# [#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452) says that Megatron's had local layer numbers: a strict
# load succeeded, and stage 1 got stage 0's layers.
#
# **By hand.** Saved with tp 2: columns 0–12 of `up` by one rank, 12–24 by the other (the end is not included). Wanted
# with tp 3: 0–8, 8–16, 16–24. The middle one reads 8–12 from the first and 12–16 from the second. With all 4 rows the
# answer is `[[0, [0, 4], [8, 12]], [1, [0, 4], [12, 16]]]`. And the layer: what a rank of stage 1 calls layer 0 is
# layer 2 of the model if its `first_layer` is 2. Two pieces fit if part, layer and expert are the same, counted in the
# whole model.
#
# A **piece** is a dict: `part`, `rows` and `columns` (begin and end, in the whole matrix); `layer`, counted by its rank
# from `first_layer`; and `expert`, counted from `first_expert`, or −1 for what is no expert's. **`reads(piece,
# saved)`** returns for a piece that is wanted a list of `[number in saved, [row, row end], [column, column end]]` that
# covers it, each number read once, though replicas have copies; and `None` if a part of it is nowhere. *About 14
# lines.*


# %% exercise="week15.reshard"
def reads(piece, saved):
    """What to read from which saved piece, in rows and columns of the whole matrix."""

    ### BEGIN SOLUTION
    def name(one):
        expert = one["first_expert"] + one["expert"] if one["expert"] >= 0 else -1
        return one["first_layer"] + one["layer"], expert, one["part"]

    def both(a, b):
        return [max(a[0], b[0]), min(a[1], b[1])]

    def area(rows, columns):
        return (rows[1] - rows[0]) * (columns[1] - columns[0])

    found, missing = {}, area(piece["rows"], piece["columns"])
    for number, one in enumerate(saved):
        rows, columns = (both(piece[axis], one[axis]) for axis in ("rows", "columns"))
        block = (*rows, *columns)
        if name(one) == name(piece) and rows[0] < rows[1] and columns[0] < columns[1] and block not in found:
            found[block] = [number, rows, columns]
            missing -= area(rows, columns)
    return None if missing else list(found.values())
    ### END SOLUTION


def all_reads(saved, wanted):
    """Given. The answers for all pieces that are wanted."""
    return [reads(piece, saved) for piece in wanted]


# %% check="week15.reshard" points=3
same = {"saved": [1, 1, 1, 1], "wanted": [1, 1, 1, 1], "layers": 2, "experts": 2, "what": "cut"}
other_tp = same | {"saved": [2, 1, 1, 1], "wanted": [3, 1, 1, 1]}
other_pp_ep = same | {"saved": [1, 2, 2, 2], "wanted": [1, 3, 1, 1], "layers": 6, "experts": 4}
incomplete = same | {"saved": [2, 2, 1, 1], "layers": 4, "what": "lost"}
check("week15.reshard", all_reads, cases=[other_tp, other_pp_ep, incomplete])  # meshes as [tp, pp, ep, dp]

# %% [markdown]
# ### The newest one that is whole
#
# Crashes love saves: then the disk is busy and memory is full. So a save writes into `step-40.tmp`, lists all files
# with their checksums in `manifest.json`, and renames the folder last.
#
# **`newest_complete(folders)`** returns the name of the newest complete checkpoint, or `None`. `folders` maps a
# folder's name to its files, name to text. A complete one is called `step-NUMBER`. Its manifest is JSON: `ranks`
# says how many ranks saved; `sha256` maps the name of each rank's file, one per rank, to the checksum of
# `text.encode()` in hex digits. Files that the manifest does not list do no harm.
#
# **By hand.** `step-9` and `step-10` have whole manifests and both their files; in `step-11` a file's text has another
# checksum; `step-12` has no manifest; `step-13.tmp` was never renamed. The answer is `"step-10"`: not the largest name
# as text, which is `step-9`, nor the largest number. *About 12 lines.*


# %% exercise="week15.newest"
def newest_complete(folders):
    """The name of the newest folder that is a whole checkpoint."""

    ### BEGIN SOLUTION
    import hashlib
    import json
    import re

    def is_complete(files):
        try:
            manifest = json.loads(files.get("manifest.json", ""))
        except ValueError:
            return False
        sums = manifest["sha256"]
        found = {name: hashlib.sha256(files[name].encode()).hexdigest() for name in sums if name in files}
        return found == sums and len(sums) == manifest["ranks"]

    steps = {int(name[5:]): name for name in folders if re.fullmatch(r"step-\d+", name)}
    return next((steps[step] for step in sorted(steps, reverse=True) if is_complete(folders[steps[step]])), None)
    ### END SOLUTION


# %% check="week15.newest" points=2
saves = [[8, "good"], [9, "good"], [10, "a stray file"]], [[7, "good"], [8, "no manifest"], [9, "a file is cut short"]]
worse = [[20, "good"], [30, "a bit is flipped"], [40, "half a manifest"], [50, "never renamed"]]
none = [[1, "a file is gone"], [2, "the manifest lacks a rank"]]
cases = [{"ranks_saved": n, "steps": s} for n, s in zip((2, 3, 3, 2), (*saves, worse, none), strict=True)]
check("week15.newest", newest_complete, cases=cases)

# %% [markdown]
# ## 9 · Kill a rank
#
# Now the real thing, with the package's trainer. Four ranks, dp 2 · tp 2, a checkpoint every four steps. In step 11
# rank 2 gets a SIGKILL: it ends without a word. **Predict:** from which step does training go on, and what is lost?


# %%
def go(sizes, ranks, folder, kill_at=0):
    recipe = recipe_of(sizes, str(folder), steps=16, checkpoints={"every": 4})
    hooks = [train.KillRank(2, step=kill_at)] if kill_at else []
    return run(lambda: train.train(recipe, hooks=hooks, quiet=True).resumed, ranks=ranks, timeout=90)[0]


folder = train.new_folder()
try:
    go({"dp": 2, "tp": 2}, 4, folder / "killed", kill_at=11)
except RanksFailed as report:
    print(str(report).splitlines()[0])
print(sorted(path.name for path in (folder / "killed" / "checkpoints").iterdir()))

# %% [markdown]
# Three ranks are left, and we use two, as a pipeline of two stages: not one axis is as it was. Beside it, an unbroken
# run on one rank.


# %%
def losses_of(name):
    return {row["step"]: row["loss"] for row in train.read_log(folder / name) if "loss" in row}


killed = losses_of("killed")
resumed = go({"pp": 2}, 2, folder / "killed")
go({}, 1, folder / "unbroken")
broken, unbroken = losses_of("killed"), losses_of("unbroken")
off = max(abs(one[step] - unbroken[step]) for one in (killed, broken) for step in one)
print(f"went on after step {resumed}; losses of {len(broken)} steps differ from one rank's by at most {off:.0e}")
figure, ax = figures.new_axes(6, 2.6)
ax.plot(list(unbroken), list(unbroken.values()), color="#0072B2", linewidth=5, alpha=0.35, label="one rank, unbroken")
then = {step: broken[step] for step in range(resumed + 1, 17)}
for losses, look, size, colour, name in (
    (then, "s", 6, "#D55E00", "then pp 2"),
    (killed, "o", 3, "#4D4D4D", "dp 2, tp 2"),
):
    ax.plot(list(losses), list(losses.values()), color=colour, marker=look, markersize=size, linewidth=1, label=name)
ax.axvline(11, color="#D55E00", linestyle="--")
ax.annotate("rank 2 is killed", (11.1, max(broken.values())), va="top", color="#D55E00", fontsize=8)
ax.set(xlabel="step", ylabel="loss")
ax.set_title("The curve does not see that the mesh has changed", loc="left", fontsize=10)
ax.legend(fontsize=8, loc="lower left")
words = "In words: the loss of the run that was killed lies on the unbroken one, before and after the change of mesh."
figures.show(figure, words)

# %% [markdown]
# Steps 9 and 10 were done twice. That is the price of a failure: half an interval on average.
#
# ## 10 · Interview: how often do you save?
#
# Llama 3 405B met 419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783, section 3.3.4): one in 3.1
# hours, 5.78 years per GPU. A save stops the work for s seconds, after a failure R seconds pass before the work goes
# on, M is the mean time between failures of the *job*.
#
# Work T, save, work T, save: a share T/(T + s) is work. A failure, one in M, costs R and on average half of T + s. So
#
# > goodput = T/(T + s) · (1 − (R + (T + s)/2)/M)
#
# Young (1974): T = √(2sM). Daly (2006): √(2sM) · (1 + √(s/2M)/3 + s/18M) − s.
#
# **By hand.** M = 10,000 s, s = 50 s, R = 600 s: Young √(2 · 50 · 10,000) = 1,000 s, Daly 1,000 · (1 + 0.0167 + 0.0003)
# − 50 = 967 s. Goodput with T = 1,000 s: 1000/1050 · (1 − (600 + 525)/10,000) = 84.5%.
#
# **`checkpoint_numbers(gpus, years_between_failures, save_seconds, restart_seconds)`** returns M in seconds (a year has
# 365 days), Young's T, Daly's T, goodput with Young's T, and goodput with T of an hour. *About 8 lines.*


# %% exercise="week15.interval"
def checkpoint_numbers(gpus, years_between_failures, save_seconds, restart_seconds):
    """[M, Young's T, Daly's T, goodput, goodput with T = 3600]; seconds and shares."""
    ### BEGIN SOLUTION
    between = years_between_failures * 365 * 24 * 3600 / gpus
    young = (2 * save_seconds * between) ** 0.5
    ratio = save_seconds / (2 * between)
    daly = young * (1 + ratio**0.5 / 3 + ratio / 9) - save_seconds

    def goodput(interval):
        whole = interval + save_seconds
        return interval / whole * (1 - (restart_seconds + whole / 2) / between)

    return [between, young, daly, goodput(young), goodput(3600)]
    ### END SOLUTION


# %% check="week15.interval" points=1
llama = {"gpus": 16384, "years_between_failures": 5.78, "save_seconds": 30, "restart_seconds": 600}
check("week15.interval", checkpoint_numbers, cases=[llama, llama | {"gpus": 8}])

# %% [markdown]
# Now the answer that you would give, in five to eight sentences. Use your own numbers: how often Llama's job should
# save, what it gains compared with once per hour, and what an asynchronous save changes in the formula and what it does
# not. At ten times as many GPUs, which of s, R and T would you work on first?

# %% [markdown] manual="week15.interview" points=2
# ### BEGIN SOLUTION
# With 16,384 GPUs something fails every 11,125 seconds, about 3.1 hours. With s = 30 s Young's interval is 817 s, not
# quite 14 minutes; Daly's is 797 s, so the choice between them does not matter. Goodput is 87.6%, with a save every
# hour 77.6%: ten percent of 16,384 GPUs for a number in a file.
#
# An asynchronous save makes s the time that steps really wait: one copy to memory, a second or two. Then T can be some
# minutes and the first factor is nearly one. It does not change R, and T cannot be shorter than a save takes to reach
# the disk. At ten times as many GPUs M is 19 minutes. R = 600 s alone is then half of M: more than anything that saves
# cost. So restarts come first: spare nodes, groups made again without all ranks, loading from a neighbour's memory.
#
# Full marks: M from the number of GPUs, both goodputs, s as what blocks, and R as the term that dominates.
# ### END SOLUTION

# %% [markdown]
# ## 11 · Challenge: a recipe under a cap
#
# Four ranks, a small model with four experts, five steps of Adam on eight sequences. **`recipe`** is a dict: `tp`,
# `pp`, `dp`, `cp`, `ep`, `microbatches`, `schedule` (gpipe, 1f1b, interleaved, zb-h1, zbv), `zero`, `recompute` (none,
# selective, full, stage), `sequence_parallel`, `learning_rate`. What you leave out is the reference's: dp 4, one
# microbatch, nothing sharded or recomputed. (So if you set tp, pp or cp, set dp as well.) The reference has 2.15 MB
# alive at once, and its loss hardly moves.
#
# **One point:** after every step the same loss as one rank with your learning rate, and the last one at most 3.2. **Two
# more:** no rank has more than 950,000 bytes alive. Neither depends on your machine. Speed does, so it brings no
# points: your instructor runs `autograder leaderboard`, which races each recipe three times in turns with the
# reference, and the best ratio leads.


# %%
def lap(given):
    laps = hybrid.raced(given)
    most, speed = max(one.peak_bytes for one in laps), laps[0].tokens_per_second
    print(f"{given}: loss {laps[0].losses[-1]:.3f}, {most:,} bytes on the fullest rank, {speed:,.0f} tokens/s")


lap({"dp": 4})
lap({"dp": 4, "zero": 1, "learning_rate": 0.01})

# %% exercise="week15.recipe"
recipe = {"dp": 4}
### BEGIN SOLUTION
recipe = {"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007}
### END SOLUTION

# %% check="week15.recipe" points=3
check("week15.recipe", recipe, cases=[{"part": "loss", "seed": 0}, {"part": "cap", "seed": 0}])

# %% [markdown]
# ## 12 · Read real code
#
# In your installed PyTorch: `torch/distributed/elastic/agent/server/api.py`, what torchrun does when a worker dies; and
# `torch/distributed/checkpoint/filesystem.py`.
#
# 1. `"waiting"`: in `SimpleElasticAgent._invoke_run`, all workers are healthy. Which number still makes the agent
#    restart them? The name of the variable.
# 2. `"counts"`: does such a restart use up one of `max_restarts`? True or False.
# 3. `"order"`: in which order does `FileSystemWriter.finish` (inherited) call `dump`, `fsync`, `rename` and `rm_file`?
#    A list.
#
# <details><summary>And in `labs/shardlab/train/checkpoint_save.py`: why does one rank rename, and all the others learn
# whether it could?</summary>
#
# A rename is one moment: before it there is a draft, after it a checkpoint. If ranks believed different things about
# it, they would resume from different steps.
# </details>

# %% exercise="week15.reading"
reading_answers = {"waiting": None, "counts": None, "order": None}
### BEGIN SOLUTION
reading_answers["waiting"] = "num_nodes_waiting"
reading_answers["counts"] = False
reading_answers["order"] = ["dump", "fsync", "rm_file", "rename"]
### END SOLUTION

# %% check="week15.reading" points=1
check("week15.reading", reading_answers)

# %% [markdown]
# ## 13 · Optional: gradients that have types
#
# Three of the six bugs are type errors; in one of them, a norm's gradient that is still a partial sum is taken for a
# whole one. In week 5 [spmd_types](https://github.com/meta-pytorch/spmd_types) checked one axis; it takes several. `P`
# is a partial sum, `I` a copy whose gradient is a copy as well. After `pip install spmd_types==0.3.1`:


# %%
def typed_norm(tp, finished):
    import spmd_types as spmd  # type: ignore[import-not-found]

    gain_gradient, rate = torch.randn(4), torch.randn(4)
    spmd.assert_type(gain_gradient, {tp: spmd.P})  # each rank has seen a part of the sequence
    spmd.assert_type(rate, {tp: spmd.I})
    if finished:
        gain_gradient = spmd.all_reduce(gain_gradient, tp, src=spmd.P, dst=spmd.I)
    return spmd.get_axis_local_type(rate + gain_gradient, tp)


try:
    import spmd_types.checker  # type: ignore[import-not-found]

    dist.init_process_group(backend="fake", rank=0, world_size=8)
    eight = dist.init_device_mesh("cpu", (8,), mesh_dim_names=("tp",))
    for finished in (True, False):
        try:
            with spmd_types.set_current_mesh(eight), spmd_types.checker.typecheck():
                print("the updated gain is", typed_norm(eight.get_group("tp"), finished))
        except spmd_types.SpmdTypeError as error:
            print("a type error:", str(error).splitlines()[0])
    dist.destroy_process_group()
except ImportError:
    print("spmd_types is not installed: this section is optional")

# %% [markdown]
# ## 14 · Recap
#
# <details><summary>Why is the loss divided before the backward, by the tokens of all, and not averaged after
# it?</summary>
#
# Every gradient is then a sum, on every axis, and no divisor depends on the mesh.
# </details>
#
# <details><summary>What must a checkpoint say about a tensor, and what must it not?</summary>
#
# Its name in the whole model, and which rows and columns these are. Not which rank had it, and no rank's own count of
# layers or experts.
# </details>
#
# <details><summary>A training is wrong with eight ranks and right with one. What do you compare first?</summary>
#
# Gradients of one step, name by name, on meshes that differ in one axis.
# </details>
#
# ## 15 · Take away
#
# > **One.** Five axes put one question to each gradient five times: who has another part of this sum? In the end there
# > is one divisor.
#
# > **Two.** Loss curves hide bugs. Compare gradients by name, one axis at a time.
#
# > **Three.** What survives is what does not depend on the mesh: the data order, the names, the step.
#
# ## 16 · Going further
#
# - *MegaScale*, arXiv 2402.15627. Look for: how long a failure takes to be found, and what they do against R.
# - *The Llama 3 Herd of Models*, arXiv 2407.21783, section 3.3.4. Look for: which share of failures is hardware.
# - [Megatron-LM#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452). Look for: thirteen silent bugs that a
#   program reported, and how it found them. Its author did not verify each one: which would you test first?
#
# **An experiment, not graded.** In section 9 kill rank 2 in step 12, and then in step 13. What is left each time, and
# where does the run go on?
