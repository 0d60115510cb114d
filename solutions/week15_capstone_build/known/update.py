# %% right_as_taught from="page" also="week15.finish week15.backward"
"""Different: the page's own solution."""

import torch
from mine import ddp, pipeline, program, zero

dist = torch.distributed

# %% right_unit_by_unit
"""Different: every unit by itself, and its own sums."""

import torch
from mine import program, zero

dist = torch.distributed


def move(trainer, keys, mean, group):
    (key,), lr = keys, trainer.recipe.lr
    if key not in trainer.states:
        trainer.states[key] = zero.zero1_state([trainer.units[key]], group=group)
    state = trainer.states[key]
    if trainer.recipe.optimizer == "sgd":
        state["master"].sub_(mean, alpha=lr)
        mean = mean.new_zeros(mean.shape)
    zero.zero1_step([trainer.units[key]], mean, state, lr, group=group)


def update(trainer, gradients, tokens, valid):
    recipe, groups = trainer.recipe, trainer.groups
    is_ddp = recipe.zero == 0 and recipe.tp * recipe.cp * recipe.ep * recipe.pp == 1
    for key, given in gradients.items():
        shared, gradient = trainer.sharers(key), given.clone()
        num = shared.size()
        if recipe.zero >= 2 or is_ddp:
            move(trainer, [key], gradient * num / valid, shared if recipe.zero == 2 else groups["alone"])
            continue
        if key.endswith("norm"):
            dist.all_reduce(gradient, group=groups["tp"])
        if recipe.zero == 1:
            move(trainer, [key], zero.mean_slice([gradient], group=shared) * num / valid, shared)
            continue
        dist.all_reduce(gradient, group=shared)
        move(trainer, [key], gradient / valid, groups["alone"])


def after_updates(recipe, units, gradients, tokens, valid, **groups):
    trainer = program.trainer_of(recipe, groups, units)
    for one in gradients:
        update(trainer, one, tokens, valid)
    return {key: unit.detach() for key, unit in trainer.units.items()}


# %% norms_are_partial of="right_unit_by_unit"
"""Wrong: forgets tp for norms (Megatron-LM#1446)."""

# -        if key.endswith("norm"):
# +        if key.endswith("none"):

# %% own_tokens of="right_unit_by_unit"
"""Wrong: divides by the tokens of the rank."""

# -        move(trainer, [key], gradient / valid, groups["alone"])
# +        move(trainer, [key], gradient / tokens, groups["alone"])

# %% mean_of_means of="right_unit_by_unit"
"""Wrong: divides a mean over ranks by all tokens: N times too small."""

# -            move(trainer, [key], gradient * num / valid, shared if recipe.zero == 2 else groups["alone"])
# +            move(trainer, [key], gradient / valid, shared if recipe.zero == 2 else groups["alone"])

# %% zero_1_without_num of="right_unit_by_unit"
"""Wrong: ZeRO-1 divides its mean by all tokens."""

# -            move(trainer, [key], zero.mean_slice([gradient], group=shared) * num / valid, shared)
# +            move(trainer, [key], zero.mean_slice([gradient], group=shared) / valid, shared)

# %% experts_over_copies of="right_unit_by_unit"
"""Wrong: adds different experts into each other."""

# -        shared, gradient = trainer.sharers(key), given.clone()
# +        shared, gradient = groups["copies"], given.clone()

# %% sums_again of="right_unit_by_unit"
"""Wrong: DDP's means are summed once more."""

# -    is_ddp = recipe.zero == 0 and recipe.tp * recipe.cp * recipe.ep * recipe.pp == 1
# +    is_ddp = False

# %% new_state_each_time of="right_unit_by_unit"
"""Wrong: Adam forgets its moments.

Not in sight: the public cases use SGD.
"""

# -    if key not in trainer.states:
# +    if True:

# %% adam_for_sgd of="right_unit_by_unit"
"""Wrong: always Adam."""

# -    if trainer.recipe.optimizer == "sgd":
# +    if trainer.recipe.optimizer == "never":

# %% sgd_twice of="right_unit_by_unit"
"""Wrong: after SGD's step Adam moves, too."""

# -        mean = mean.new_zeros(mean.shape)

# %% slice_only of="right_unit_by_unit"
"""Wrong: ZeRO-2 moves its slice over a group of one: the shapes do not fit, or nobody hears of it."""

# -            move(trainer, [key], gradient * num / valid, shared if recipe.zero == 2 else groups["alone"])
# +            move(trainer, [key], gradient * num / valid, groups["alone"])

# %% whole_sums_with_zero_1 of="right_unit_by_unit"
"""Wrong: ZeRO-1 sums whole gradients first, and then once more: right numbers, twice the bytes."""

# -            move(trainer, [key], zero.mean_slice([gradient], group=shared) * num / valid, shared)
# +            dist.all_reduce(gradient, group=shared)
# +            move(trainer, [key], zero.mean_slice([gradient], group=shared) / valid, shared)
