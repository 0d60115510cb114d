# %% right_as_taught from="page"
"""Different: the page's own solution."""

import torch
from mine import fsdp, model, program, sequence_parallel

# %% right_unrolled
"""Different: one function for all kinds of block, weights gathered in a loop."""

import torch
from mine import fsdp, model, program, sequence_parallel


def named(trainer, key, unit):
    flat, found, begin = unit, {}, 0
    if trainer.recipe.zero == 3:
        num = sum(shape.numel() for shape in trainer.shapes[key].values())
        flat = fsdp.Gather.apply(unit, torch.Size((num,)), trainer.sharers(key))
    for name, shape in trainer.shapes[key].items():
        found[name] = flat[begin : begin + shape.numel()].reshape(shape)
        begin += shape.numel()
    return found


def run_block(trainer, block, compute, *x):
    keys = [key for key in trainer.units if key.partition(" ")[0] == block]
    num = len(x)

    def run(*tensors):
        w = {}
        for place, key in enumerate(keys):
            w.update(named(trainer, key, tensors[num + place]))
        return compute(*tensors[:num], w)

    tensors = x + tuple(trainer.units[key] for key in keys)
    if trainer.recipe.zero < 3:
        return run(*tensors)
    return sequence_parallel.recompute_function(run, torch.Generator(), *tensors)


def stage_output(trainer, microbatch, stage, x):
    inputs, labels, positions = microbatch
    recipe, groups = trainer.recipe, trainer.groups

    def compute(block):
        if block == "embed":
            return lambda w: model.embed(w, inputs, positions, groups)
        if block == "last":
            return lambda x, w: model.sum_of_losses(x, w, labels, recipe, groups)
        return lambda x, w: model.layer(positions, trainer.balance[block], recipe, groups, x, w)

    for block in trainer.stages[stage]:
        x = run_block(trainer, block, compute(block), *([] if block == "embed" else [x]))
    return x


def loss_and_gradients(recipe, stages, units, shapes, microbatch, **groups):
    trainer, x = program.trainer_of(recipe, groups, units, stages, shapes), None
    for stage, _ in stages:
        x = stage_output(trainer, microbatch, stage, x)
    x.backward()
    loads = {block: one["load"] for block, one in trainer.balance.items()}
    return x.detach(), {key: unit.grad for key, unit in trainer.units.items()}, loads


# %% kept_with_zero_3 of="right_unrolled"
"""Wrong: gathers once and keeps the weights of all blocks for the backward."""

# -    if trainer.recipe.zero < 3:
# +    if trainer.recipe.zero < 9:

# %% recomputes_always of="right_unrolled"
"""Wrong: runs every block twice, and counts each load twice."""

# -    if trainer.recipe.zero < 3:
# -        return run(*tensors)
#      return sequence_parallel.recompute_function(run, torch.Generator(), *tensors)

# %% first_layer_again of="right_unrolled"
"""Wrong: every layer has the weights of the first block of its stage."""

# -    keys = [key for key in trainer.units if key.partition(" ")[0] == block]
# +    own = {"embed": "embed", "last": "last"}.get(block, "0")
# +    keys = [key for key in trainer.units if key.partition(" ")[0] == own]

# %% detached of="right_unrolled"
"""Wrong: reads the weights without their gradients."""

# -        found[name] = flat[begin : begin + shape.numel()].reshape(shape)
# +        found[name] = flat.detach()[begin : begin + shape.numel()].reshape(shape)

# %% inputs_as_labels of="right_unrolled"
"""Wrong: predicts the token that it sees."""

# -            return lambda x, w: model.sum_of_losses(x, w, labels, recipe, groups)
# +            return lambda x, w: model.sum_of_losses(x, w, inputs, recipe, groups)

# %% positions_in_order of="right_unrolled"
"""Wrong: takes positions in order, where context parallel ranks have two chunks."""

#      inputs, labels, positions = microbatch
# +    positions = torch.arange(len(positions))

# %% no_tp of="right_unrolled"
"""Wrong: the layers work alone, without their tensor parallel group."""

# -        return lambda x, w: model.layer(positions, trainer.balance[block], recipe, groups, x, w)
# +        own = groups | {"tp": groups["alone"]}
# +        return lambda x, w: model.layer(positions, trainer.balance[block], recipe, own, x, w)

# %% mean_of_losses of="right_unrolled"
"""Wrong: returns a mean."""

# -            return lambda x, w: model.sum_of_losses(x, w, labels, recipe, groups)
# +            return lambda x, w: model.sum_of_losses(x, w, labels, recipe, groups) / labels.numel()
