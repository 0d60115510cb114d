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
# *Core: about 170 minutes; optional: about 130 · 1 to 8 ranks · no GPU needed*
#
# Your answers become one trainer: a small GPT with data, pipeline, context, tensor and expert parallelism. Its results
# must match one rank up to rounding, and it must run without this notebook. In the optional part a rank is killed, and
# training continues on a *different* mesh.
#
# After this week you can
#
# - [ ] **build** a trainer for five axes: its weights, stages, sums and steps;
# - [ ] **decide** over which ranks each kind of gradient must be summed;
# - [ ] **show** that every mesh gives the results of one rank.
#
# **Before you start**, answer two questions for yourself.
#
# <details><summary>Over which ranks is the gradient of a dense weight added up, and over which an expert's?</summary>
#
# A dense weight's over dp and cp together: these ranks have the same weight and different tokens. An expert's over edp,
# the ranks with a copy of it. </details>
#
# <details><summary>Two ranks have 3 and 9 valid tokens. May the loss be the mean of their means?</summary>
#
# No. Each of the three tokens would count three times as much. Add up the losses and divide by 12.
# </details>

# %%
from random import Random

import torch
from shardlab import RanksFailed, costs, figures, hybrid, mesh, meter, run, train

from autograder import check

dist = torch.distributed
from mine import collectives, ddp, fsdp, long_context, model, moe, pipeline, program, sequence_parallel, zero

# %% [markdown]
# ## 1 · The problem in numbers
#
# Mixtral 8x7B has 46.7 billion parameters. With Adam and mixed precision each takes 18 bytes if gradients are summed
# in float32, as in week 10. **How many of the five axes do you need until a rank's states fit into 80 GB?** Guess, then
# run.

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
title = "dp saves nothing and tp little: pp and ep shrink Mixtral's states until they fit"
figures.show(figure, figures.draw_memory(ax, rows, title=title, limit=80e9, limit_label="one GPU"))

# %% [markdown]
# dp and cp split *tokens*, not weights. tp splits dense weights; here the experts, 97% of Mixtral, stay whole. pp and
# ep split the experts. A trainer must know the kind of every tensor.
#
# ## 2 · The picture first
#
# Eight ranks: tp 2, cp 2, pp 2. Which ranks have rank 5's weights but different tokens? Which have its tokens but
# different columns? Which has the previous stage?

# %%
figure, ax = figures.new_axes(8, 1.9)
figures.show(figure, figures.draw_groups(ax, mesh.Mesh(tp=2, cp=2, pp=2), 5, ranks_per_node=4))

# %% [markdown]
# Experts need no extra ranks: **ep** (专家并行) ranks of a stage have different experts, and **edp** ranks have copies
# of the same experts. (Here dp · cp = ep · edp; your trainer gives ep its own ranks.)
#
# **Notation.** `g{U_dp,cp}` is a gradient that must still be summed over dp and cp. A norm's is `g{U_dp,cp,tp}`, an
# expert's `g{U_edp}`: the all-to-all's backward has already brought the tokens of the other ep ranks.
#
# ## 3 · The data order does not depend on the mesh
#
# A run on dp = 4 that continues with dp = 2 must read the same data. So a step's data depends only on the seed and the
# step.
#
# **By hand.** 5 sequences, batches of 4. Epoch 0 is a permutation of 5, say `3 0 4 1 2`; epoch 1 another, `1 4 2 0 3`.
# Step 0 reads `3 0 4 1`, step 1 `2 | 1 4 2`: a batch may cross into the next epoch. With dp = 2, replica 1 reads `4 2`
# in step 1.
#
# **`sequences(seed, step, replica, dp, batch, num)`** returns the batch/dp sequence numbers, from 0 to num − 1, that a
# replica reads. Every epoch reads each sequence once, in its own order; other seeds give other orders.
# (`Random(f"{seed}/{epoch}")` keeps no state; seed 7 in epoch 1 differs from seed 8 in epoch 0.) *About 7 lines.*
#
# > **What the grade varies.** Numbers, meshes of one to eight ranks, ranks without tokens, the order of bugs.


# %% exercise="week15.data-order"
def sequences(seed, step, replica, dp, batch, num):
    """The sequence numbers of one replica in one step; replica r reads the r-th part of the step's batch."""

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
    """Given. The results of many calls."""
    return [sequences(*call) for call in calls]


# %% check="week15.data-order" points=2
small = {"seed": 7, "num": 20, "batch": 8, "dp": [1, 2, 4]}
check("week15.data-order", order_of, cases=[small, {"seed": 3, "num": 24, "batch": 6, "dp": [1, 3]}])

# %% [markdown]
# ## 4 · The sums after the backward
#
# After the backward, each rank has gradients of the *sum* of its own valid tokens' losses. We want those of the mean
# over all valid tokens of all ranks.
#
# **By hand.** dp 2, tp 2. Ranks 0 and 1 have 3 valid tokens, ranks 2 and 3 have 1. A dense weight's gradients are 6, 6,
# 2, 2: equal on tp ranks. A norm's are 4, 2, 1, 1, because each rank has seen half of the sequence. Both become
# (6 + 2)/4 = 2: sum over dp, for the norm also over tp, and divide by the 4 tokens of dp 0 and dp 1. An expert's 3 and
# 5 on two edp ranks become (3 + 5)/4 = 2, with the same divisor. A tied weight has two gradients, 5 on the first stage
# and 3 on the last. Add these first: its replica has 8.
#
# **`finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends)`** returns a list of new gradients. A kind is
# `"dense"`, `"split"` (each tp rank has a different part), `"norm"`, `"expert"` or `"tied"` (first and last stage, the
# group `ends`, each use the whole weight). `tokens` is this rank's number of valid tokens, possibly 0. `copies` are the
# ranks with the same dense weights and different tokens: here over dp and cp, in your trainer also over ep. Send each
# gradient at most once over a group. *About 10 lines.*


# %% exercise="week15.finish"
def finish_gradients(gradients, kinds, tokens, *, copies, edp, tp, ends):
    """Gradients of the mean over all valid tokens; does not modify the given tensors."""
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
# ## 5 · Your own trainer
#
# You are given `mine.model`, a GPT as functions of a dict of weights, and `mine.program`, which reads recipes. You
# write the rest; lines that only arrange data are given.
#
# A model is a list of **blocks**: `embed`, the layers `0`, `1`, …, and `last`, a norm and the loss. Weights are named
# `block.name`, such as `0.up`. A **unit**, `"block kind"` such as `"0 split"`, is one flat tensor with all weights of
# one kind in a block.


# %%
dense = program.recipe_of({"layers": 1}, 1)
for name, weight in model.new_weights(dense).items():
    print(f"{name:14} {model.kind_of(name):6} {list(weight.shape)}")

# %% [markdown]
# ### Round 1: the weights of a rank
#
# **By hand.** pp 2, 3 layers: stage 0 has `embed`, `0`, `1`; stage 1 has `2`, `last`. With tp 2, `up` (32, 128) becomes
# (32, 64), see `model.SPLIT_BY_TP`. ep splits the first dimension of weights named `expert…`. Kind `norm`, which
# includes embeddings and routers, stays whole.
#
# - **`own_stages(schedule, rank, layers)`** returns a rank's `{stage: blocks}` for a schedule such as `[["0F0", …]]`;
#   your `pipeline.split_stages([1] * layers, num_stages)` divides the layers.
# - **`own_weights(weights, blocks, places, sizes)`** returns this rank's parts of the weights of these blocks.
# - **`new_units(weights, sharers, zero_stage)`** returns units, and `{name: shape}` of each. `sharers(key)` is (rank,
#   size) in the group that shares a unit. Pad the unit for that size; with ZeRO-3 a rank keeps only its slice.
#
# *About 10 lines.*


# %% exercise="week15.own-weights"
def own_stages(schedule, rank, layers):
    """The blocks of each of a rank's stages, {stage: ["embed", "0", "1"]}; the last stage ends with "last"."""
    owner = pipeline.owners(schedule)  # the rank of each stage; below, `blocks` lists the blocks of each stage
    ### BEGIN SOLUTION
    sizes = pipeline.split_stages([1] * layers, len(owner))
    blocks = [list(map(str, part.tolist())) for part in torch.arange(layers).split(sizes)]
    blocks[0].insert(0, "embed")
    blocks[-1].append("last")
    ### END SOLUTION
    return {stage: blocks[stage] for stage in sorted(owner) if owner[stage] == rank}


def own_weights(weights, blocks, places, sizes):
    """This rank's parts of the weights of its blocks, by name."""
    split_by = {"expert": ("ep", 0)} | {name: ("tp", at) for name, at in model.SPLIT_BY_TP.items()}
    found = {}
    ### BEGIN SOLUTION
    for name, whole in weights.items():
        block, own_name = name.split(".", 1)
        axis, dimension = split_by.get(own_name.split(".")[0], (None, 0))
        if block in blocks:
            found[name] = whole.chunk(sizes[axis], dimension)[places[axis]] if axis else whole
    ### END SOLUTION
    return found


def new_units(weights, sharers, zero_stage):
    """(flat tensors, {name: shape}), each by "block kind"; sharers(key) is (rank, size) of the group that shares it."""
    units, shapes = {}, {}
    for name, weight in weights.items():
        block, own_name = name.split(".", 1)
        shapes.setdefault(f"{block} {model.kind_of(name)}", {})[own_name] = weight.shape
    for key, own in shapes.items():
        rank, size = sharers(key)
        ### BEGIN SOLUTION
        flat = zero.flatten_and_pad([weights[f"{key.split()[0]}.{name}"] for name in own], size)
        units[key] = flat.chunk(size)[rank].clone() if zero_stage == 3 else flat
        ### END SOLUTION
    return units, shapes


def units_of_ranks(calls):
    """Given. [blocks, units, shapes] of each rank; sharers: (rank, size) in "copies" and in "edp"."""
    found = []
    for weights, schedule, layers, places, sizes, sharers, zero_stage in calls:
        stages = own_stages(schedule, places["pp"], layers)
        blocks = [block for own in stages.values() for block in own]
        own = own_weights(weights, blocks, places, sizes)
        units, shapes = new_units(own, lambda key, of=sharers: of["edp" if "expert" in key else "copies"], zero_stage)
        found.append([blocks, units, {key: {n: list(s) for n, s in one.items()} for key, one in shapes.items()}])
    return found


# %% check="week15.own-weights" points=2
cases = [{}, {"tp": 2, "pp": 2}, {"ep": 2, "dp": 2, "experts": 4}, {"dp": 2, "zero": 3}]
check("week15.own-weights", units_of_ranks, cases=[*cases, {"pp": 2, "stages": "v", "layers": 4}])

# %% [markdown]
# ### Round 2: the forward of a stage
#
# A `program.Trainer` has `recipe`, `groups` (each axis, `copies`, `edp`, `stage`, and `alone`, one rank), `stages`,
# `units`, `shapes`, and `balance` by block; `trainer.sharers(key)` is the group that shares a unit. Use
#
# - `model.embed(w, inputs, positions, groups)`, `model.layer(positions, balance, recipe, groups, x, w)` and
#   `model.sum_of_losses(x, w, labels, recipe, groups)`, with `w` the block's weights by name;
# - `fsdp.Gather.apply(unit, torch.Size([numbers]), group)`. With ZeRO-3, gather *inside*
#   `sequence_parallel.recompute_function(function, torch.Generator(), *tensors)`, so that no gathered weight outlives
#   its block.
#
# **`named(trainer, key, unit)`** returns a unit's weights by name, **`run_block(trainer, block, compute, *x)`** returns
# `compute(*x, weights)`, and **`stage_output(trainer, microbatch, stage, x)`** a stage's output, or the sum of losses.
# A microbatch is (inputs, labels, positions). **By hand:** 10 numbers with shapes `a` (2, 3) and `b` (3,) are a, b and
# one number of padding. *About 13 lines.*


# %% exercise="week15.stage"
def named(trainer, key, unit):
    """The weights of a unit by name; ZeRO-3 gathers them first."""
    shapes = trainer.shapes[key]
    sizes = [shape.numel() for shape in shapes.values()]
    ### BEGIN SOLUTION
    if trainer.recipe.zero == 3:
        unit = fsdp.Gather.apply(unit, torch.Size([sum(sizes)]), trainer.sharers(key))
    parts = unit.split([*sizes, len(unit) - sum(sizes)])  # the last part is padding
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts[:-1], strict=True)}
    ### END SOLUTION


def run_block(trainer, block, compute, *x):
    """compute(*x, weights by name); with ZeRO-3 the backward gathers the weights again instead of keeping them."""
    keys = [key for key in trainer.units if key.split()[0] == block]

    def run(*tensors):
        weights = {}
        for key, unit in zip(keys, tensors[len(x) :], strict=True):
            weights |= named(trainer, key, unit)
        return compute(*tensors[: len(x)], weights)

    tensors = [*x, *(trainer.units[key] for key in keys)]
    ### BEGIN SOLUTION
    if trainer.recipe.zero == 3:
        return sequence_parallel.recompute_function(run, torch.Generator(), *tensors)
    return run(*tensors)
    ### END SOLUTION


def stage_output(trainer, microbatch, stage, x):
    """A stage's output (T, B, H); on the last stage, the sum of its tokens' losses. x is None on stage 0."""
    inputs, labels, positions = microbatch
    given = trainer.recipe, trainer.groups

    for block in trainer.stages[stage]:

        def layer(x, w, balance=trainer.balance[block]):
            return model.layer(positions, balance, *given, x, w)

        ### BEGIN SOLUTION
        if block == "embed":
            x = run_block(trainer, block, lambda w: model.embed(w, inputs, positions, trainer.groups))
        elif block == "last":
            x = run_block(trainer, block, lambda x, w: model.sum_of_losses(x, w, labels, *given), x)
        else:
            x = run_block(trainer, block, layer, x)
        ### END SOLUTION
    return x


def loss_and_gradients(recipe, stages, units, shapes, microbatch, **groups):
    """Given. Run all stages in turn on this rank, then the backward: loss, gradients, loads of experts."""
    trainer, x = program.trainer_of(recipe, groups, units, stages, shapes), None
    for stage, _ in stages:
        x = stage_output(trainer, microbatch, stage, x)
    x.backward()
    loads = {block: one["load"] for block, one in trainer.balance.items()}
    return x.detach(), {key: unit.grad for key, unit in trainer.units.items()}, loads


# %% check="week15.stage" points=3
cases = [{"stages": 1}, {"tp": 2, "stages": 2}, {"cp": 2, "stages": 1}, {"ep": 2, "experts": 4, "stages": 1}]
check("week15.stage", loss_and_gradients, cases=[*cases, {"dp": 2, "zero": 3, "stages": 1}])

# %% [markdown]
# ### Round 3: the backward of a step
#
# Three of your answers compute gradients:
#
# - only dp, ZeRO-0: `ddp.ddp_backward(module, microbatches, buckets, group=…)` adds up the microbatches, here indices;
#   buckets list indices of units, such as `[[2], [1, 0]]`, by your `ddp.assign_buckets`;
# - ZeRO-2: `zero.zero2_backward(units, loss, group=…)` returns a slice of each unit's mean, for one microbatch;
# - otherwise: `pipeline.run_slots(schedule, forward, weights, like, group=…)` returns losses by microbatch;
#   `weights(stage)` lists a stage's units.
#
# In the first two, stage 0 is the whole model. ZeRO-2 and 3 exclude pp, tp and experts.
#
# **`backward(trainer, forward, like)`** returns the sum of this rank's losses and `{key: gradient}`: sums over its
# tokens, or (DDP, ZeRO-2 and 3) means of these over the sharers. It leaves no unit with a `grad`. Collect the
# losses in `losses.found`. **By hand:** dp 2, sums 6 and 2: DDP leaves 4 on both ranks. *About 13 lines.*


# %% exercise="week15.backward"
def overlaps(recipe):
    """Whether DDP averages gradients over dp during the backward."""
    ### BEGIN SOLUTION
    return recipe.zero == 0 and recipe.tp == recipe.cp == recipe.ep == recipe.pp == 1
    ### END SOLUTION


class Losses(torch.nn.Module):
    """The model as a module whose output is the sum of a microbatch's losses; it also records the sums."""

    def __init__(self, units, forward):
        super().__init__()
        self.units, self.run_stage, self.found = torch.nn.ParameterList(units), forward, []

    def forward(self, number):
        """The loss of microbatch `number`."""
        ### BEGIN SOLUTION
        loss = self.run_stage(0, number, None)
        self.found.append(loss.detach())
        return loss
        ### END SOLUTION


def backward(trainer, forward, like):
    """(sum of this rank's losses, {key: gradient of a unit}); forward(stage, microbatch, x) is a stage's output."""
    recipe, groups, units = trainer.recipe, trainer.groups, list(trainer.units.values())
    losses, numbers = Losses(units, forward), range(recipe.microbatches)

    def weights(stage):
        return [unit for key, unit in trainer.units.items() if key.split()[0] in trainer.stages[stage]]

    ### BEGIN SOLUTION
    if recipe.zero == 2:
        slices = [zero.zero2_backward(units, losses(number), group=groups["copies"]) for number in numbers]
        return float(sum(losses.found)), dict(zip(trainer.units, map(sum, zip(*slices, strict=True)), strict=True))
    if overlaps(recipe):
        buckets = ddp.assign_buckets([unit.nbytes for unit in units], 1 << 20)
        ddp.ddp_backward(losses, numbers, buckets, group=groups["dp"])
    else:
        found = pipeline.run_slots(trainer.schedule, forward, weights, like, group=groups["pp"])
        losses.found = list(found.values())
    ### END SOLUTION
    gradients = {key: unit.grad for key, unit in trainer.units.items()}
    losses.zero_grad()
    return float(sum(losses.found)), gradients


def gradients_of(recipe, stages, num_stages, num, units, inputs, **groups):
    """Given. Run `backward` with stages of tanh(x · unit) instead of the model's."""
    trainer = program.trainer_of(recipe, groups, units, stages)

    def forward(stage, number, x):
        x = inputs[number] if stage == 0 else x
        x = torch.tanh(x * trainer.units[f"{stage} split"][:num])
        return x.sum() if stage == num_stages - 1 else x

    return backward(trainer, forward, inputs)


# %% check="week15.backward" points=3
one = {"numbers": 400, "microbatches": 2}
more = [{"dp": 2, "microbatches": 3}, {"numbers": 401, "dp": 2, "zero": 2, "microbatches": 3}]
more += [{"pp": 2, "microbatches": 4}, {"pp": 2, "cp": 2, "schedule": "zb-h1", "microbatches": 4}]
check("week15.backward", gradients_of, cases=[one, *(one | other for other in more)])

# %% [markdown]
# ### Round 4: sums, ZeRO, the optimizer
#
# A mean over N sharers, divided by valid/N, is the sum divided by all `valid` tokens; experts have a different N. Then
# `zero.zero1_step(units, mean, state, lr, group=…)` updates a slice and shares it; over `alone` it is a plain step.
#
# | | gradients are | then | step over |
# |---|---|---|---|
# | ZeRO-0 | own sums | your `finish_gradients` | alone |
# | DDP, ZeRO-3 | means | divide | alone |
# | ZeRO-1 | own sums | `finish_gradients` over tp only, then `zero.mean_slice` | the sharers |
# | ZeRO-2 | a slice of each unit's mean | divide | the sharers, each unit separately |
#
# **By hand.** dp 2, 6 valid tokens, sums 9 and 3: (9 + 3)/6 = 2. ZeRO-2 has the mean 6 and divides by 6/2: 2 again.
#
# **`move(trainer, keys, mean, group)`** does one step for some units, with states in `trainer.states`. For `"sgd"`, do
# `state["master"] -= lr * mean` and call `zero1_step` with zero gradients, for which Adam changes nothing.
# **`update(trainer, gradients, tokens, valid)`** does the rest. *About 15 lines.*


# %% exercise="week15.update"
def move(trainer, keys, mean, group):
    """Update units with this rank's slice of their mean gradient; every rank of the group ends with whole units."""
    units, lr = [trainer.units[key] for key in keys], trainer.recipe.lr
    if keys[0] not in trainer.states:
        trainer.states[keys[0]] = zero.zero1_state(units, group=group)
    state = trainer.states[keys[0]]
    ### BEGIN SOLUTION
    if trainer.recipe.optimizer == "sgd":
        state["master"] -= lr * mean
        mean = torch.zeros_like(mean)
    zero.zero1_step(units, mean, state, lr, group=group)
    ### END SOLUTION


def update(trainer, gradients, tokens, valid):
    """Take a step with gradients of the mean over all `valid` tokens; this rank has `tokens` of them."""
    recipe, groups, alone = trainer.recipe, trainer.groups, trainer.groups["alone"]
    for is_expert in (False, True):
        keys = [key for key in trainer.units if key.endswith("expert") == is_expert]
        if not keys:
            continue
        found, kinds = [gradients[key] for key in keys], [key.split()[1] for key in keys]
        shared = trainer.sharers(keys[0])
        per_rank = valid / shared.size()
        ### BEGIN SOLUTION
        if recipe.zero >= 2 or overlaps(recipe):
            for key, gradient in zip(keys, found, strict=True):
                move(trainer, [key], gradient / per_rank, shared if recipe.zero == 2 else alone)
        elif recipe.zero == 1:
            finished = finish_gradients(found, kinds, per_rank, copies=alone, edp=alone, tp=groups["tp"], ends=None)
            move(trainer, keys, zero.mean_slice(finished, group=shared), shared)
        else:
            over = {name: groups[name] for name in ("copies", "edp", "tp")}
            finished = finish_gradients(found, kinds, tokens, **over, ends=None)
            move(trainer, keys, zero.flatten_and_pad(finished, 1), alone)
        ### END SOLUTION


def after_updates(recipe, units, gradients, tokens, valid, **groups):
    """Given. The units after one update per dict of gradients."""
    trainer = program.trainer_of(recipe, groups, units)
    for one in gradients:
        update(trainer, one, tokens, valid)
    return {key: unit.detach() for key, unit in trainer.units.items()}


# %% check="week15.update" points=4
one = {"numbers": 700, "lr": 1.0}
more = [{"dp": 2}, {"tp": 2, "cp": 2}, {"dp": 2, "ep": 2, "experts": 4, "zero": 1}, {"dp": 2, "zero": 2}]
check("week15.update", after_updates, cases=[one, *(one | other for other in [*more, {"dp": 2, "zero": 3}])])

# %% [markdown]
# ### Round 5: the loop
#
# - **`new_trainer(recipe, groups, weights, text)`** needs the stages, units and shapes of round 1.
# - **`own_batch(trainer, step)`** returns microbatches. Replicas are numbered over dp and ep, ep fastest; your
#   `sequences` selects what each reads from `trainer.text`. Then `long_context.my_part(rows, rows, group=…)` returns
#   inputs, labels (the next tokens; −100, not valid, at the end) and positions.
# - **`train_step(trainer, step)`** returns the mean loss on every rank. Use your ring to sum losses and tokens over
#   `copies`. Only the last stage has losses. The routers' biases are given.
#
# **By hand.** dp 2, ep 2, a batch of 8: dp 1, ep 0 is replica 2, with sequences 4 and 5. *About 15 lines.*


# %% exercise="week15.loop"
def new_trainer(recipe, groups, weights, text):
    """A rank's initial state, from the whole weights by name and the whole text."""
    schedule = program.SCHEDULES[recipe.schedule](recipe.pp, recipe.microbatches)
    places, sizes = ({axis: getattr(groups[axis], what)() for axis in program.AXES} for what in ("rank", "size"))

    def sharers(key):
        group = groups["edp" if key.endswith("expert") else "copies"]
        return group.rank(), group.size()

    ### BEGIN SOLUTION
    stages = own_stages(schedule, groups["pp"].rank(), recipe.layers)
    blocks = [block for own in stages.values() for block in own]
    own = own_weights(weights, blocks, places, sizes)
    units, shapes = new_units(own, sharers, recipe.zero)
    ### END SOLUTION
    return program.trainer_of(vars(recipe), groups, units, stages.items(), shapes, text)


def own_batch(trainer, step):
    """This rank's (inputs, labels, positions) per microbatch; dp and ep ranks have different sequences."""
    ### BEGIN SOLUTION
    recipe, groups = trainer.recipe, trainer.groups
    replica, num = groups["dp"].rank() * recipe.ep + groups["ep"].rank(), recipe.dp * recipe.ep
    tokens = trainer.text[sequences(recipe.seed, step, replica, num, recipe.batch, len(trainer.text))]
    return [long_context.my_part(one, one, group=groups["cp"]) for one in tokens.chunk(recipe.microbatches)]
    ### END SOLUTION


def train_step(trainer, step):
    """Run one step; returns the mean loss over the whole batch, on every rank."""
    recipe, groups, batch = trainer.recipe, trainer.groups, own_batch(trainer, step)
    rows, positions = batch[0][0].shape
    like = [torch.empty(positions // recipe.tp, rows, recipe.hidden)] * recipe.microbatches
    ### BEGIN SOLUTION
    loss, gradients = backward(trainer, lambda stage, m, x: stage_output(trainer, batch[m], stage, x), like)
    tokens = sum(int((labels != -100).sum()) for _, labels, _ in batch)
    sums = torch.tensor([loss, tokens], dtype=torch.float64)
    sums = collectives.ring_all_reduce(sums, group=groups["copies"])
    update(trainer, gradients, tokens, float(sums[1]))
    ### END SOLUTION
    for block, own in trainer.balance.items():
        if recipe.experts and block.isdigit():
            load = collectives.ring_all_reduce(own["load"], group=groups["stage"])
            trainer.balance[block] = {"bias": moe.moved_bias(own["bias"], load, 0.01), "load": torch.zeros_like(load)}
    ### BEGIN SOLUTION
    return float(collectives.ring_all_reduce(sums[:1], group=groups["pp"]) / sums[1])
    ### END SOLUTION


def trained(recipe, weights, text, **groups):
    """Given. Losses and this rank's weights after all steps."""
    trainer = new_trainer(program.SimpleNamespace(**recipe), groups, weights, text)
    losses = [train_step(trainer, step) for step in range(recipe["steps"])]
    with torch.no_grad():
        found = {key: named(trainer, key, unit) for key, unit in trainer.units.items()}
    return losses, {f"{key.split()[0]}.{name}": one.clone() for key, own in found.items() for name, one in own.items()}


# %% check="week15.loop" points=4
cases = [{}, {"dp": 2}, {"tp": 2, "pp": 2}, {"cp": 2, "dp": 2, "zero": 3}]
check("week15.loop", trained, cases=[*cases, {"dp": 2, "ep": 2, "experts": 4, "steps": 3}])

# %% [markdown]
# ### From one process to three axes at once
#
# One model on real ranks, with SGD, because Adam divides a gradient by its own size and hides a factor. **Predict:**
# which mesh sends most?


# %%
from mine import train as assembled  # yours, once the checks above have passed
from mine.mesh import coordinates
from shardlab.own import hunt, pack, saving, step_bytes


def lap_on(given):
    """Losses of three steps; the last step's bytes by axes, counted and by formula (which omits rows over ep)."""
    recipe = program.recipe_of({"steps": 3} | given, dist.get_world_size())
    weights, text = model.new_weights(recipe), model.new_text(recipe)
    trainer = assembled.new_trainer(recipe, program.groups_of(recipe), weights, text)
    losses = [assembled.train_step(trainer, step) for step in range(2)]
    with meter.record() as bill:
        losses.append(assembled.train_step(trainer, 2))
    sizes, counted = {axis: getattr(recipe, axis) for axis in program.AXES}, {}
    for event in bill.events:
        axes = step_bytes.axes_between([coordinates(rank, sizes) for rank in event.members])
        counted[axes] = counted.get(axes, 0) + event.sent_bytes
    places = coordinates(dist.get_rank(), sizes)
    formula = step_bytes.sent_bytes(vars(recipe), places, saving.weights_of(trainer))
    return losses, {"·".join(sorted(axes)): (num, formula.get(axes, 0)) for axes, num in counted.items() if num > 1000}


laps = [{"dp": 2}, *({"dp": 2, "zero": stage} for stage in (1, 2, 3)), {"tp": 2}, {"pp": 2}, {"cp": 2}]
laps += [{"dp": 2, "tp": 2, "pp": 2}, {"dp": 2, "tp": 2, "cp": 2}, {"dp": 2, "pp": 2, "ep": 2, "experts": 4}]
alone = {num: run(lap_on, {"experts": num}, ranks=1, timeout=60)[0][0] for num in (0, 4)}
for given in laps:
    ranks = torch.Size([given.get(axis, 1) for axis in program.AXES]).numel()
    losses, sent = run(lap_on, given, ranks=ranks, timeout=120)[0]
    off = max(abs(a - b) for a, b in zip(losses, alone[given.get("experts", 0)], strict=True))
    bills = ", ".join(f"{axes} {num:,.0f} (formula {by_formula:,.0f})" for axes, (num, by_formula) in sent.items())
    print(f"{given}: losses differ by at most {off:.0e}; rank 0 sends over {bills}")

# %% [markdown]
# Losses agree to about 1e-6, and bytes match their formulas, except over ep, where the router decides.
#
# **Outside the notebook.** When all checks pass, `work/mine/` is a program that needs only torch:
#
# ```
# torchrun --standalone --nproc-per-node 8 -m mine.train recipe.toml
# ```
#
# The recipe has lines such as `dp = 2`, `tp = 2`, `steps = 20`. The next cell stores your modules in this page for
# grading: run it, then save.

# %%
pack()

# %% [markdown]
# ## 6 · Interview: how do you know that it is right?
#
# In five to eight sentences: over which ranks you sum the gradient of a dense weight, a norm, an expert and a tied
# weight, and why; what you compare with one rank, on which meshes and in which order; why with SGD; and what a loss
# curve would not have shown.

# %% [markdown] manual="week15.interview" points=2
# ### BEGIN SOLUTION
# A dense weight's gradient is summed over dp and cp, whose ranks have the same weight and different tokens. A norm's is
# also summed over tp, because with sequence parallelism a tp rank sees only a part of the positions. An expert's is
# summed over edp: the all-to-all's backward has brought the other ep ranks' rows. A tied weight's two gradients, of the
# first and of the last stage, are summed first. At the end one division by all valid tokens.
#
# I would compare one step with one rank, name by name: first each axis alone with two ranks, then two axes, then the
# whole mesh, with the same sequences. With SGD a gradient that is twice too large moves a weight twice as far; Adam
# divides by the gradient's own size and hides the factor. The loss of the first step is computed before any update, so
# it is right with wrong gradients, and later ones differ so little that a curve does not show it. I would also compare
# bytes by axis with the formula: a missing or doubled sum changes them.
#
# Full marks: four kinds with their ranks and reasons, one axis at a time, SGD, and why the loss is not enough.
# ### END SOLUTION

# %% [markdown]
# ## 7 · Recap
#
# <details><summary>Why divide the loss by all ranks' tokens before the backward, instead of averaging after
# it?</summary>
#
# Then every gradient is a sum on every axis, and no divisor depends on the mesh.
# </details>
#
# ## 8 · Take away
#
# > **One.** For each gradient and each of five axes, ask which ranks have another part of the sum. At the end, divide
# > once.
#
# > **Two.** Loss curves hide bugs. Compare gradients, one axis at a time.
#
# > **Three.** Only what does not depend on the mesh survives a failure: the data order, the names, the step.
#
# ## 9 · Going further
#
# - *The Llama 3 Herd of Models*, arXiv 2407.21783, section 3.3.4. Look for: the share of failures caused by hardware.
# - [Megatron-LM#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452). Look for: thirteen silent bugs that a
#   program reported, and how it found them.
#
# **An experiment, not graded.** Train your `mine` for 200 steps on your own text.

# %% [markdown]
# ## Optional · A bill, a hunt, and a run that survives
#
# ### The bill of five axes
#
# A stage has layers/pp layers. Each rank has `tokens` tokens of a microbatch (after cp's split), each h numbers in
# bf16. tp also splits experts. In one forward
#
# - **tp** adds partial sums twice per layer: an all-reduce of tokens · h numbers, or the same bytes in two halves;
# - **cp** passes keys and values around a ring: cp − 1 messages of 2 · tokens · kv/tp numbers per layer;
# - **ep** sends rows out and back: of tokens/tp tokens, k copies each, a share of (ep − 1)/ep leaves the rank.
#
# Once per step, gradients are summed: dense/(tp · pp) numbers over dp · cp ranks, and experts/(tp · pp · ep) numbers
# over dp · cp/ep.
#
# **By hand.** tp 2, cp 2, ep 2, dp 1, pp 1; one layer, h = 4, kv = 2, 4 tokens, k = 1; 8 dense numbers, 16 in experts.
# A ring all-reduce sends 2 · (n − 1)/n times its bytes (week 1); for two ranks, exactly its bytes.
#
# | | |
# |---|---|
# | copies of a dense weight, of an expert | 1 · 2 = 2, and 2/2 = 1 |
# | tp: two all-reduces of 4 · 4 numbers, 32 bytes each | 64 |
# | cp: keys and values, 4 · 2/2 numbers each, to one other rank | 16 |
# | ep: 4/2 tokens, one copy, 4 wide: 16 bytes, half of them leave, out and back | 16 |
# | gradients: 8/2 dense numbers, 8 bytes, over two ranks; experts have no copies | 8 |
#
# **`five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts)`** returns six numbers: how many
# ranks sum a dense gradient; how many an expert's; the bytes that a rank sends in a forward on tp, on cp, on ep; and
# those for all gradients, by ring all-reduces in bf16. *About 8 lines.*


# %% exercise="week15.bill"
def five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts):
    """[ranks, ranks, bytes on tp, on cp, on ep, bytes of gradients], in bf16."""

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


# %% check="week15.bill" points=1 optional=true
sizes = {"layers": 32, "hidden": 4096, "kv": 1024, "tokens": 4096, "k": 2}
sizes |= {"dense": 1_605_000_000, "experts": 45_097_000_000}
axes = [{"tp": 2, "cp": 2, "ep": 4, "dp": 8, "pp": 4}, {"tp": 1, "cp": 1, "ep": 1, "dp": 1, "pp": 1}]
check("week15.bill", five_axis_bill, cases=[mesh | sizes for mesh in axes])

# %% [markdown]
# ### Hunt: which axis broke the loss?
#
# Seven suspects train the same step. One is healthy. Each of the others has a bug from one of these threads, and their
# logs look the same:
#
# - [Megatron-LM#1446](https://github.com/NVIDIA/Megatron-LM/issues/1446): a missing sum
# - [DeepSpeed#5618](https://github.com/deepspeedai/DeepSpeed/issues/5618): a factor, hidden by Adam
# - [Megatron-LM#7513](https://github.com/NVIDIA/Megatron-LM/pull/7513): a mean of means
# - [piper#13](https://github.com/uw-syfi/piper/issues/13): two halves of one weight
# - [Automodel#3530](https://github.com/NVIDIA-NeMo/Automodel/pull/3530): gradients thrown away between microbatches
# - [pytorch#144530](https://github.com/pytorch/pytorch/issues/144530): hooks that a split backward skips
#
# You may train each suspect on any mesh of up to four ranks and see its gradients. **Change one axis at a time.** Two
# traps: ep has no ranks of its own here, so what do you compare it with? And correct sums in another order differ by
# rounding: one gradient, a key's bias, is zero in theory, so every digit of it is noise.
#
# **`culprit(train)`** returns the guilty axis, or `None`, and the sorted list of kinds of weights with wrong gradients,
# such as `("tp", ["norm"])`. `train(tp=2)` returns gradients by name; omitted axes are 1. **By hand**: on one rank a
# norm's gradient is 4 and an expert's 6; with tp 2 they are 1 and 6, on all other axes 4 and 6. The answer is
# `("tp", ["norm"])`; without a bug it is `(None, [])`. *About 10 lines.*


# %% exercise="week15.which-axis"
def kind_of(name):
    """Given. The kind of a weight."""
    if name == "token.weight":
        return "tied"
    return "norm" if "norm" in name else "expert" if "expert" in name else "dense"


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
    """Given. Calls `culprit` with a table of gradients on all meshes of up to four ranks."""
    return culprit(lambda tp=1, pp=1, cp=1, dp=1, ep=1: table[f"tp {tp}, pp {pp}, cp {cp}, dp {dp}, ep {ep}"])


# %% check="week15.which-axis" points=3 optional=true
check("week15.which-axis", culprit_in, cases=[{"suspect": number} for number in range(7)])

# %% [markdown]
# The check trains its own suspects. Now plant the bugs in **your** trainer (five of the six: it ties no weights). A
# step of SGD with a learning rate of 1 subtracts the gradient itself. What do the losses show?


# %%
def gradients_on(suspect="nothing", **sizes):
    """Loss and gradients by name of one step of your trainer, on real ranks of a mesh."""
    ranks = torch.Size(sizes.values()).numel()
    if (suspect, *sizes.items()) not in known:
        found = run(hunt.step_with, suspect, sizes, ranks=ranks, timeout=60)
        known[suspect, *sizes.items()] = found[0].loss, hunt.joined(found)
    return known[suspect, *sizes.items()]


known = {}  # results, so that nothing runs twice
for suspect in (hunt.NORMS, hunt.LAST):
    losses = [f"{gradients_on(suspect, **sizes)[0]:.4f}" for sizes in ({}, {"tp": 2}, {"pp": 2})]
    print(f"losses on one rank, tp 2, pp 2: {', '.join(losses)}; guilty:", end=" ")
    print(culprit(lambda suspect=suspect, **sizes: gradients_on(suspect, **sizes)[1]), f"({suspect})")

# %% [markdown]
# The losses agree in every printed digit, but gradients are partial sums.
#
# ### A checkpoint for any mesh
#
# After a rank is lost, the remaining ranks need a different mesh. So a checkpoint must not say *rank 3 had this*,
# but *these rows and columns of that tensor of the whole model*. Megatron's had local layer numbers, according to
# finding 12 of [#7452](https://github.com/NVIDIA/Megatron-LM/issues/7452): stage 1 got stage 0's layers.
#
# **By hand.** Saved with tp 2: columns 0–12 of `up` by one rank, 12–24 by the other (the end is not included). Wanted
# with tp 3: 0–8, 8–16, 16–24. The middle piece reads 8–12 from the first and 12–16 from the second. With all 4 rows the
# answer is `[[0, [0, 4], [8, 12]], [1, [0, 4], [12, 16]]]`. Layers: layer 0 of a rank of stage 1 is layer 2 of the
# model if its `first_layer` is 2. Two pieces match if their part, layer and expert are the same in the whole model.
#
# A **piece** is a dict: `part`, `rows` and `columns` (begin and end, in the whole matrix); `layer`, relative to
# `first_layer`; and `expert`, relative to `first_expert`, or −1 if there is none. **`reads(piece, saved)`** returns a
# list of `[index in saved, [row, row end], [column, column end]]` that covers the wanted piece and reads each number
# once, although replicas have copies; or `None` if part of it is missing. *About 14 lines.*


# %% exercise="week15.reshard"
def reads(piece, saved):
    """The reads that make up a piece: saved piece, rows and columns of the whole matrix."""

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
    """Given. The reads of all wanted pieces."""
    return [reads(piece, saved) for piece in wanted]


# %% check="week15.reshard" points=3 optional=true
same = {"saved": [1, 1, 1, 1], "wanted": [1, 1, 1, 1], "layers": 2, "experts": 2, "what": "cut"}
other_tp = same | {"saved": [2, 1, 1, 1], "wanted": [3, 1, 1, 1]}
other_pp_ep = same | {"saved": [1, 2, 2, 2], "wanted": [1, 3, 1, 1], "layers": 6, "experts": 4}
incomplete = same | {"saved": [2, 2, 1, 1], "layers": 4, "what": "lost"}
check("week15.reshard", all_reads, cases=[other_tp, other_pp_ep, incomplete])  # meshes as [tp, pp, ep, dp]

# %% [markdown]
# ### The newest complete checkpoint
#
# A save writes into `step-40.tmp`, lists all files with their checksums in `manifest.json`, and finally renames the
# folder.
#
# **`newest_complete(folders)`** returns the name of the newest complete checkpoint, or `None`. `folders` maps a
# folder's name to its files, name to text. A complete checkpoint is named `step-NUMBER`. Its manifest is JSON: `ranks`
# is the number of ranks that saved; `sha256` maps the name of each rank's file, one per rank, to the checksum of
# `text.encode()` in hex digits. Files that the manifest does not list are ignored.
#
# **By hand.** `step-9` and `step-10` have whole manifests and both their files; in `step-11` a file's checksum does not
# match; `step-12` has no manifest; `step-13.tmp` was never renamed. The answer is `"step-10"`: neither the largest name
# as text, `step-9`, nor the largest number. *About 12 lines.*


# %% exercise="week15.newest"
def newest_complete(folders):
    """The name of the newest complete checkpoint's folder, or None."""

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


# %% check="week15.newest" points=2 optional=true
saves = [[8, "good"], [9, "good"], [10, "a stray file"]], [[7, "good"], [8, "no manifest"], [9, "a file is cut short"]]
worse = [[20, "good"], [30, "a bit is flipped"], [40, "half a manifest"], [50, "never renamed"]]
none = [[1, "a file is gone"], [2, "the manifest lacks a rank"]]
cases = [{"ranks_saved": n, "steps": s} for n, s in zip((2, 3, 3, 2), (*saves, worse, none), strict=True)]
check("week15.newest", newest_complete, cases=cases)

# %% [markdown]
# ### Kill a rank
#
# Your trainer with dp 2 · tp 2 saves every four steps; your `newest_complete` and `reads` load. In step 11, rank 2 gets
# a SIGKILL. **Predict:** from which step does training continue, and what is lost?


# %%
def go(sizes, ranks, name, killed=None):
    (folder / name).mkdir(exist_ok=True)
    given = {"experts": 4, "lr": 0.3} | sizes
    return run(saving.train_on, given, folder / name, 16, 4, killed, ranks=ranks, timeout=90)[0]


folder = train.new_folder()
try:
    go({"dp": 2, "tp": 2}, 4, "killed", killed=(2, 11))
except RanksFailed as report:
    print(str(report).splitlines()[0])
print(sorted(path.name for path in (folder / "killed").iterdir()))

# %% [markdown]
# Three ranks remain. We use two of them as a pipeline and compare with an uninterrupted run on one rank.


# %%
killed = saving.losses_in(folder / "killed")
resumed = go({"pp": 2}, 2, "killed")
go({}, 1, "unbroken")
broken, unbroken = (saving.losses_in(folder / name) for name in ("killed", "unbroken"))
off = max(abs(one[step] - unbroken[step]) for one in (killed, broken) for step in one)
print(f"resumed after step {resumed}; losses of {len(broken)} steps differ from one rank's by at most {off:.0e}")
figure, ax = figures.new_axes(6, 2.6)
ax.plot(
    list(unbroken), list(unbroken.values()), color="#0072B2", linewidth=5, alpha=0.35, label="one rank, uninterrupted"
)
then = {step: broken[step] for step in range(resumed + 1, 17)}
for losses, look, size, colour, name in (
    (then, "s", 6, "#D55E00", "then pp 2"),
    (killed, "o", 3, "#4D4D4D", "dp 2, tp 2"),
):
    ax.plot(list(losses), list(losses.values()), color=colour, marker=look, markersize=size, linewidth=1, label=name)
ax.axvline(11, color="#D55E00", linestyle="--")
ax.annotate("rank 2 is killed", (11.1, max(broken.values())), va="top", color="#D55E00", fontsize=8)
ax.set(xlabel="step", ylabel="loss")
ax.set_title("The loss curve does not show that the mesh has changed", loc="left", fontsize=10)
ax.legend(fontsize=8, loc="lower left")
words = "In words: the killed run has the same losses as the uninterrupted one, before and after the change of mesh."
figures.show(figure, words)

# %% [markdown]
# Steps 9 and 10 ran twice.
#
# ### Interview: how often do you save?
#
# Llama 3 405B had 419 unexpected interruptions in 54 days on 16,384 GPUs (arXiv 2407.21783, section 3.3.4): one in 3.1
# hours, 5.78 years per GPU. A save stops the work for s seconds, a restart after a failure takes R seconds, and M is
# the mean time between failures of the *job*.
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
# 365 days), Young's T, Daly's T, goodput with Young's T, and goodput with T = 3600 s. *About 8 lines.*


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


# %% check="week15.interval" points=1 optional=true
llama = {"gpus": 16384, "years_between_failures": 5.78, "save_seconds": 30, "restart_seconds": 600}
check("week15.interval", checkpoint_numbers, cases=[llama, llama | {"gpus": 8}])

# %% [markdown]
# <details><summary>How often should Llama's job save? And with ten times as many GPUs, what would you improve
# first?</summary>
#
# With s = 30 s every 817 s: goodput is 87.6%, against 77.6% with one save per hour. An asynchronous save shrinks s to
# the time that steps wait. With ten times as many GPUs M is 19 minutes, and R = 600 s costs more than any save: improve
# restarts. </details>
#
# ### Challenge: a recipe under a cap
#
# Four ranks run the course's trainer: a small model with four experts, five steps of Adam on eight sequences.
# **`recipe`** is a dict: `tp`, `pp`, `dp`, `cp`, `ep`, `microbatches`, `schedule` (gpipe, 1f1b, interleaved, zb-h1,
# zbv), `zero`, `recompute` (none, selective, full, stage), `sequence_parallel`, `learning_rate`. Omitted keys default
# to the reference's: dp 4, one microbatch, nothing sharded or recomputed. (So if you set tp, pp or cp, also set dp.)
# The reference has 2.15 MB alive at once, and its loss hardly decreases.
#
# **One point:** after every step the same loss as one rank with your learning rate, and a final loss of at most 3.2.
# **Two more:** no rank has more than 950,000 bytes alive. Speed earns no points; your instructor's
# `autograder leaderboard` races the recipes.


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

# %% check="week15.recipe" points=3 optional=true
check("week15.recipe", recipe, cases=[{"part": "loss", "seed": 0}, {"part": "cap", "seed": 0}])

# %% [markdown]
# ### Read real code
#
# In your installed PyTorch, open `torch/distributed/elastic/agent/server/api.py` (what torchrun does when a worker
# dies) and `torch/distributed/checkpoint/filesystem.py`.
#
# 1. `"waiting"`: in `SimpleElasticAgent._invoke_run`, all workers are healthy. Which number still makes the agent
#    restart them? The name of the variable.
# 2. `"counts"`: does such a restart use up one of `max_restarts`? True or False.
# 3. `"order"`: in which order does `FileSystemWriter.finish` (inherited) call `dump`, `fsync`, `rename` and `rm_file`?
#    A list.

# %% exercise="week15.reading"
reading_answers = {"waiting": None, "counts": None, "order": None}
### BEGIN SOLUTION
reading_answers["waiting"] = "num_nodes_waiting"
reading_answers["counts"] = False
reading_answers["order"] = ["dump", "fsync", "rm_file", "rename"]
### END SOLUTION

# %% check="week15.reading" points=1 optional=true
check("week15.reading", reading_answers)

# %% [markdown]
# ### Gradients that have types
#
# Three of the six bugs are type errors, such as a norm's partial sum treated as whole. In
# [spmd_types](https://github.com/meta-pytorch/spmd_types) (week 5), `P` is a partial sum, `I` a copy whose gradient is
# also a copy. Run `pip install spmd_types==0.3.1`, then:


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
