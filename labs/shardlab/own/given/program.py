"""Given: reads a recipe from a file, holds one rank's state in a Trainer, and trains in `main`."""

import os
import sys
import tomllib
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from math import prod
from types import SimpleNamespace

import torch
import torch.distributed as dist
from mine import dualpipe, mesh, model, pipeline, zero_bubble

AXES = ("tp", "cp", "ep", "dp", "pp")  # tp changes fastest from rank to rank
GROUPS = {axis: [axis] for axis in AXES} | {"alone": [], "copies": ["cp", "ep", "dp"], "edp": ["tp", "cp", "dp"]}
GROUPS |= {"stage": ["tp", "cp", "ep", "dp"]}
SCHEDULES = {"1f1b": pipeline.one_f_one_b, "gpipe": pipeline.gpipe, "zb-h1": zero_bubble.zb_h1}
SCHEDULES |= {"interleaved": partial(zero_bubble.interleaved, num_chunks=2), "dualpipe-v": dualpipe.dualpipe_v}
DEFAULTS = dict.fromkeys(AXES, 1) | {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 64}
DEFAULTS |= {"experts": 0, "batch": 16, "microbatches": 2, "schedule": "1f1b", "zero": 0, "steps": 10, "seed": 0}
DEFAULTS |= {"lr": 0.1, "optimizer": "sgd", "backend": "gloo"}
CHOICES = {"zero": (0, 1, 2, 3), "schedule": [*SCHEDULES], "optimizer": ("sgd", "adam"), "backend": ("gloo", "nccl")}


@dataclass
class Trainer:
    """The state of one rank. A unit is one flat tensor with all weights of one kind in a block."""

    recipe: SimpleNamespace
    groups: dict
    text: torch.Tensor | None  # sequences of tokens
    schedule: list
    stages: dict  # number of each of this rank's stages -> its blocks
    units: dict  # "block kind" -> parameter; with ZeRO-3, this rank's slice of it
    shapes: dict  # "block kind" -> name -> shape
    balance: dict  # block -> bias and load of each expert
    states: dict = field(default_factory=dict)  # optimizer states, by the key of the first unit

    def sharers(self, key):
        """The group of ranks that hold copies of a unit."""
        return self.groups["edp" if key.endswith("expert") else "copies"]


def trainer_of(recipe, groups, units, stages=(), shapes=None, text=None):
    """Make a trainer from plain values: a dict, flat tensors by key, (stage, blocks) pairs, shapes by key and name."""
    one, device = SimpleNamespace(**recipe), torch.get_default_device()
    schedule, zeros = SCHEDULES[one.schedule](one.pp, one.microbatches), torch.zeros(one.experts)
    parameters = {key: torch.nn.Parameter(unit.clone().to(device)) for key, unit in units.items()}
    sizes = {key: {name: torch.Size(shape) for name, shape in own.items()} for key, own in (shapes or {}).items()}
    balance = {block: {"bias": zeros, "load": zeros.long()} for _, blocks in stages for block in blocks}
    text = text if text is None else text.to(device)
    return Trainer(one, groups, text, schedule, dict(stages), parameters, sizes, balance)


def groups_of(recipe):
    """This rank's process groups by name."""
    return mesh.my_groups(GROUPS, {axis: getattr(recipe, axis) for axis in AXES})


def recipe_of(given, world):
    """Make a recipe from a dict. Raises ValueError with one sentence per problem."""
    rules = {f"a recipe has no key {key!r}: use {', '.join(DEFAULTS)}": key in DEFAULTS for key in given}
    for key, default in DEFAULTS.items():
        value, allowed = given.get(key, default), CHOICES.get(key)
        is_typed = type(value) is type(default) or (key, type(value)) == ("lr", int)
        rules[f"{key} = {value!r} must have the type of its default, {default!r}"] = is_typed
        rules[f"{key} must be one of {allowed}"] = allowed is None or value in allowed
        least = 0 if key in ("experts", "zero", "steps", "seed", "lr") else 1
        rules[f"{key} must be at least {least}"] = not is_typed or isinstance(value, str) or value >= least
    recipe = SimpleNamespace(**DEFAULTS | given)
    rules = rules_of_sizes(recipe, world) if all(rules.values()) else rules
    if not all(rules.values()):
        raise ValueError("\n".join(sentence for sentence, holds in rules.items() if not holds))
    return recipe


def rules_of_sizes(one, world):
    """The rules between the sizes of a recipe, and whether each holds."""
    num_stages = one.pp * (1 + (one.schedule in ("interleaved", "dualpipe-v")))
    even = {"heads": one.tp, "hidden": one.heads, "vocabulary": one.tp, "sequence": 2 * one.cp * one.tp}
    even |= {"experts": one.ep, "batch": one.dp * one.ep * one.microbatches}
    even |= {"microbatches": one.pp if one.schedule == "interleaved" else 1}
    size = vars(one)
    rules = {f"{name} = {size[name]} must be a multiple of {of}": size[name] % of == 0 for name, of in even.items()}
    return rules | {
        f"the product {' · '.join(AXES)} must be {world}, the number of ranks": prod(size[a] for a in AXES) == world,
        f"{one.schedule} needs pp = 2 or more": num_stages == one.pp or one.pp > 1,
        "experts must be at least 2, or 0 with ep = 1": one.experts > 1 or (one.experts, one.ep) == (0, 1),
        f"{one.layers} layers are too few for {num_stages} stages": one.layers >= num_stages,
        "ZeRO-2 and ZeRO-3 need pp = tp = 1 and no experts": one.zero < 2 or (one.pp * one.tp, one.experts) == (1, 0),
        "dualpipe-v needs at least 2 · pp microbatches": one.schedule != "dualpipe-v" or one.microbatches >= 2 * one.pp,
    }


def main(new_trainer, train_step):
    """Train the recipe file named on the command line, in one process or as a rank of torchrun."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    try:
        with open(sys.argv[1], "rb") as file:
            recipe = recipe_of(tomllib.load(file), world)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if recipe.backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        torch.set_default_device("cuda")
    store = None if "RANK" in os.environ else dist.HashStore()
    dist.init_process_group(recipe.backend, rank=rank, world_size=world, store=store, timeout=timedelta(seconds=60))
    trainer = new_trainer(recipe, groups_of(recipe), model.new_weights(recipe), model.new_text(recipe))
    for step in range(recipe.steps):
        loss = train_step(trainer, step)
        if rank == 0:
            print(f"step {step}  loss {loss:.6f}", flush=True)
    dist.destroy_process_group()
