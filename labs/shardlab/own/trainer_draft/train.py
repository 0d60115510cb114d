"""Train a small GPT over tensor, context, expert, data and pipeline parallel ranks.

python -m mine.train recipe.toml
torchrun --standalone --nproc-per-node 8 -m mine.train recipe.toml
"""

import re
from functools import partial

import torch
from mine import model, program
from mine.build import finish_gradients, sequences
from mine.collectives import ring_all_reduce
from mine.ddp import assign_buckets, ddp_backward
from mine.fsdp import Gather
from mine.long_context import my_part
from mine.moe import moved_bias
from mine.pipeline import run_slots, split_stages
from mine.sequence_parallel import recompute_function
from mine.zero import flatten_and_pad, mean_slice, zero1_state, zero1_step, zero2_backward

# week15.own-weights


def own_stages(schedule, rank, layers):
    """The blocks of each stage of a rank, {stage: ["embed", "0", "1"]}; the last stage ends with "last"."""
    found = [{int(stage) for stage in re.findall(r"(\d+)[FBIW]", " ".join(slots))} for slots in schedule]
    num_stages = sum(map(len, found))
    numbers, blocks = iter(range(layers)), {}
    for stage, count in enumerate(split_stages([1] * layers, num_stages)):
        blocks[stage] = [str(next(numbers)) for _ in range(count)]
    blocks[0].insert(0, "embed")
    blocks[num_stages - 1].append("last")
    return {stage: blocks[stage] for stage in sorted(found[rank])}


def own_weights(weights, blocks, places, sizes):
    """This rank's parts of the weights of its blocks, by name."""
    split_by = {"expert": ("ep", 0)} | {name: ("tp", at) for name, at in model.SPLIT_BY_TP.items()}
    found = {}
    for name, whole in weights.items():
        block, own_name = name.split(".", 1)
        if block in blocks:
            axis, dimension = split_by.get(own_name.split(".")[0], (None, 0))
            found[name] = whole.chunk(sizes[axis], dimension)[places[axis]] if axis else whole
    return found


def new_units(weights, sharers, zero):
    """(flat tensors, {name: shape}) by "block kind"; sharers(key) is (rank, size) of the group that has copies."""
    units, shapes = {}, {}
    for name, weight in weights.items():
        block, own_name = name.split(".", 1)
        shapes.setdefault(f"{block} {model.kind_of(name)}", {})[own_name] = weight.shape
    for key, own in shapes.items():
        rank, size = sharers(key)
        flat = flatten_and_pad([weights[f"{key.split()[0]}.{name}"] for name in own], size)
        units[key] = flat.chunk(size)[rank].clone() if zero == 3 else flat
    return units, shapes


# week15.stage


def named(trainer, key, unit):
    """The weights of a unit by name; with ZeRO-3 they are gathered first."""
    shapes = trainer.shapes[key]
    sizes = [shape.numel() for shape in shapes.values()]
    if trainer.recipe.zero == 3:
        unit = Gather.apply(unit, torch.Size([sum(sizes)]), trainer.sharers(key))
    parts = unit[: sum(sizes)].split(sizes)
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def run_block(trainer, block, compute, *x):
    """compute(*x, weights by name); with ZeRO-3 the backward gathers the weights again, so that none is kept."""
    keys = [key for key in trainer.units if key.split()[0] == block]

    def run(*tensors):
        weights = {}
        for key, unit in zip(keys, tensors[len(x) :], strict=True):
            weights |= named(trainer, key, unit)
        return compute(*tensors[: len(x)], weights)

    tensors = [*x, *(trainer.units[key] for key in keys)]
    return recompute_function(run, torch.Generator(), *tensors) if trainer.recipe.zero == 3 else run(*tensors)


def stage_output(trainer, microbatch, stage, x):
    """A stage's output (T, B, H), of the last stage the sum of its tokens' losses; x is None on stage 0."""
    inputs, labels, positions = microbatch
    given = trainer.recipe, trainer.groups
    for block in trainer.stages[stage]:
        if block == "embed":
            x = run_block(trainer, block, lambda w: model.embed(w, inputs, positions, trainer.groups))
        elif block == "last":
            x = run_block(trainer, block, lambda x, w: model.sum_of_losses(x, w, labels, *given), x)
        else:
            x = run_block(trainer, block, partial(model.layer, positions, trainer.balance[block], *given), x)
    return x


# week15.backward


def overlaps(recipe):
    """Whether DDP averages gradients over dp while the backward still runs."""
    return recipe.zero == 0 and recipe.tp == recipe.cp == recipe.ep == recipe.pp == 1


class Losses(torch.nn.Module):
    """The model as a module whose output is the sum of a microbatch's losses; it also keeps them."""

    def __init__(self, units, forward):
        super().__init__()
        self.units, self.stage, self.found = torch.nn.ParameterList(units), forward, []

    def forward(self, number):
        loss = self.stage(0, number, None)
        self.found.append(loss.detach())
        return loss


def backward(trainer, forward, like):
    """(sum of this rank's losses, {key: gradient of a unit}); forward(stage, microbatch, x) is a stage's output.

    Gradients are sums over this rank's tokens; of DDP, ZeRO-2 and ZeRO-3 the mean of these sums over the sharers, of
    ZeRO-2 and 3 this rank's slice. like: any tensor of the shape of an activation.
    """
    recipe, groups, units = trainer.recipe, trainer.groups, list(trainer.units.values())
    losses, numbers = Losses(units, forward), range(recipe.microbatches)

    def weights(stage):
        return [unit for key, unit in trainer.units.items() if key.split()[0] in trainer.stages[stage]]

    if recipe.zero == 2:
        slices = [zero2_backward(units, losses(number), group=groups["copies"]) for number in numbers]
        return float(sum(losses.found)), dict(zip(trainer.units, map(sum, zip(*slices, strict=True)), strict=True))
    if overlaps(recipe):
        ddp_backward(losses, numbers, assign_buckets([one.nbytes for one in units], 1 << 20), group=groups["dp"])
    else:
        losses.found = list(run_slots(trainer.schedule, forward, weights, like, group=groups["pp"]).values())
    gradients = {key: unit.grad for key, unit in trainer.units.items()}
    losses.zero_grad()
    return float(sum(losses.found)), gradients


# week15.update


def move(trainer, keys, mean, group):
    """Move units by this rank's slice of their mean gradient; then every rank of the group has them whole."""
    units, lr = [trainer.units[key] for key in keys], trainer.recipe.lr
    if keys[0] not in trainer.states:
        trainer.states[keys[0]] = zero1_state(units, group=group)
    state = trainer.states[keys[0]]
    if trainer.recipe.optimizer == "sgd":
        state["master"] -= lr * mean
        mean = torch.zeros_like(mean)  # Adam does not move for it
    zero1_step(units, mean, state, lr, group=group)


def update(trainer, gradients, tokens, valid):
    """A step with the gradients of the mean over all `valid` tokens, of which this rank has `tokens`."""
    zero, groups, alone = trainer.recipe.zero, trainer.groups, trainer.groups["alone"]
    for is_expert in (False, True):
        keys = [key for key in trainer.units if key.endswith("expert") == is_expert]
        if not keys:
            continue
        shared, found, kinds = (
            trainer.sharers(keys[0]),
            [gradients[key] for key in keys],
            [key.split()[1] for key in keys],
        )
        per_rank = valid / shared.size()  # the mean over the ranks of a sum, divided by it, is the mean over tokens
        if zero >= 2 or overlaps(trainer.recipe):
            for key, gradient in zip(keys, found, strict=True):
                move(trainer, [key], gradient / per_rank, shared if zero == 2 else alone)
        elif zero == 1:  # the sum over copies is part of mean_slice
            finished = finish_gradients(found, kinds, per_rank, copies=alone, edp=alone, tp=groups["tp"], ends=None)
            move(trainer, keys, mean_slice(finished, group=shared), shared)
        else:
            over = {name: groups[name] for name in ("copies", "edp", "tp")}
            finished = finish_gradients(found, kinds, tokens, **over, ends=None)
            move(trainer, keys, flatten_and_pad(finished, 1), alone)


# week15.loop


def new_trainer(recipe, groups, weights, text):
    """A rank's state at the start, of the whole weights by name and the whole text."""
    device, experts = torch.get_default_device(), torch.zeros(recipe.experts)
    schedule = program.SCHEDULES[recipe.schedule](recipe.pp, recipe.microbatches)
    stages = own_stages(schedule, groups["pp"].rank(), recipe.layers)
    blocks = [block for own in stages.values() for block in own]
    places, sizes = ({axis: getattr(groups[axis], what)() for axis in program.AXES} for what in ("rank", "size"))
    trainer = program.Trainer(recipe, groups, text.to(device), schedule, stages, {}, {})
    trainer.balance = {block: {"bias": experts, "load": experts.long()} for block in blocks}

    def sharers(key):
        return trainer.sharers(key).rank(), trainer.sharers(key).size()

    units, trainer.shapes = new_units(own_weights(weights, blocks, places, sizes), sharers, recipe.zero)
    trainer.units = {key: torch.nn.Parameter(unit.to(device)) for key, unit in units.items()}
    return trainer


def own_batch(trainer, step):
    """(inputs, labels, positions) of this rank for each microbatch; ranks of dp and ep have other sequences."""
    recipe, groups = trainer.recipe, trainer.groups
    replica, num = groups["dp"].rank() * recipe.ep + groups["ep"].rank(), recipe.dp * recipe.ep
    tokens = trainer.text[sequences(recipe.seed, step, replica, num, recipe.batch, len(trainer.text))]
    return [my_part(one, one, group=groups["cp"]) for one in tokens.chunk(recipe.microbatches)]


def move_biases(trainer):
    """Move the routers' biases by the loads of the whole batch."""
    for block, own in trainer.balance.items():
        if trainer.recipe.experts and block.isdigit():
            load = ring_all_reduce(own["load"], group=trainer.groups["stage"])
            trainer.balance[block] = {"bias": moved_bias(own["bias"], load, 0.01), "load": torch.zeros_like(load)}


def train_step(trainer, step):
    """One step; returns the mean loss over the whole batch, on every rank."""
    recipe, groups, batch = trainer.recipe, trainer.groups, own_batch(trainer, step)
    rows, positions = batch[0][0].shape
    like = torch.empty(positions // recipe.tp, rows, recipe.hidden)
    loss, gradients = backward(trainer, lambda stage, m, x: stage_output(trainer, batch[m], stage, x), like)
    tokens = sum(int((labels != -100).sum()) for _, labels, _ in batch)
    sums = ring_all_reduce(torch.tensor([loss, tokens], dtype=torch.float64), group=groups["copies"])
    update(trainer, gradients, tokens, float(sums[1]))
    move_biases(trainer)
    return float(ring_all_reduce(sums[:1], group=groups["pp"]) / sums[1])  # only the last stage has losses


if __name__ == "__main__":
    program.main(new_trainer, train_step)
