"""Given: reads a recipe from a file, holds one rank's state in a Trainer, and trains in `main`."""

import os
import sys
import tomllib
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import torch
import torch.distributed as dist
from mine import dualpipe, pipeline, zero_bubble
from mine.mesh import coordinates, my_groups
from mine.model import new_text, new_weights

AXES = ("tp", "cp", "ep", "dp", "pp")  # tp changes fastest from rank to rank
GROUPS = {axis: [axis] for axis in AXES} | {"alone": [], "copies": ["cp", "ep", "dp"], "edp": ["tp", "cp", "dp"]}
GROUPS |= {"stage": ["tp", "cp", "ep", "dp"]}
SCHEDULES = {"1f1b": pipeline.one_f_one_b, "gpipe": pipeline.gpipe, "zb-h1": zero_bubble.zb_h1}
SCHEDULES |= {"interleaved": partial(zero_bubble.interleaved, num_chunks=2), "dualpipe-v": dualpipe.dualpipe_v}
DEFAULTS = dict.fromkeys(AXES, 1) | {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 64}
DEFAULTS |= {"experts": 0, "batch": 16, "microbatches": 2, "schedule": "1f1b", "zero": 0, "steps": 10, "seed": 0}
DEFAULTS |= {"lr": 0.1, "optimizer": "sgd", "backend": "gloo"}


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
    tokens = text if text is None else text.to(device)
    return Trainer(one, groups, tokens, schedule, dict(stages), parameters, sizes, balance)


def places_of(recipe, rank):
    """A rank's coordinate on every axis."""
    return coordinates(rank, {axis: getattr(recipe, axis) for axis in AXES})


def groups_of(recipe):
    """This rank's process groups by name."""
    return my_groups(GROUPS, {axis: getattr(recipe, axis) for axis in AXES})


def recipe_of(given, world):
    """Make a recipe from a dict. Raises ValueError with one sentence per problem."""
    if unknown := sorted(given.keys() - DEFAULTS.keys()):
        raise ValueError(f"a recipe has no key {unknown[0]!r}: use {', '.join(DEFAULTS)}")
    for key, value in given.items():
        if type(value) is not type(DEFAULTS[key]) and key != "lr":
            raise ValueError(f"{key} = {value!r} must have the type of its default, {DEFAULTS[key]!r}")
    recipe = SimpleNamespace(**(DEFAULTS | given))
    if wrong := refusals(recipe, world):
        raise ValueError("\n".join(wrong))
    return recipe


def refusals(one, world):
    """The problems of a recipe, one sentence each."""
    sizes = [getattr(one, axis) for axis in AXES] + [one.microbatches, one.layers, one.batch]
    if min(sizes) < 1:
        return ["axes, microbatches, layers and batch must be at least 1"]
    ranks, num_stages = torch.Size(sizes[:5]).numel(), one.pp * (1 + (one.schedule in ("interleaved", "dualpipe-v")))
    even = {("heads", one.heads): one.tp, ("hidden", one.hidden): one.heads, ("vocabulary", one.vocabulary): one.tp}
    even |= {("sequence", one.sequence): 2 * one.cp * one.tp, ("experts", one.experts): one.ep}
    even |= {("batch", one.batch): one.dp * one.ep * one.microbatches}
    even |= {("microbatches", one.microbatches): one.pp if one.schedule == "interleaved" else 1}
    rules = {f"{name} = {value} must be a multiple of {of}": value % of == 0 for (name, value), of in even.items()}
    rules |= {
        f"the product {' · '.join(AXES)} is {ranks}, but the number of ranks is {world}": ranks == world,
        "experts must be 0 (with ep = 1), or at least max(2, ep)": one.experts >= max(2, one.ep)
        or (one.experts, one.ep) == (0, 1),
        f"{one.layers} layers are too few for {num_stages} stages": one.layers >= num_stages,
        "zero must be 0, 1, 2 or 3": one.zero in range(4),
        "ZeRO-2 and ZeRO-3 need pp = tp = 1 and no experts": one.zero < 2 or (one.pp * one.tp, one.experts) == (1, 0),
        f"schedule must be one of {', '.join(SCHEDULES)}": one.schedule in SCHEDULES,
        "dualpipe-v needs at least 2 · pp microbatches": one.schedule != "dualpipe-v" or one.microbatches >= 2 * one.pp,
        "optimizer must be sgd or adam": one.optimizer in ("sgd", "adam"),
        "backend must be gloo or nccl": one.backend in ("gloo", "nccl"),
    }
    return [sentence for sentence, is_right in rules.items() if not is_right]


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
    trainer = new_trainer(recipe, groups_of(recipe), new_weights(recipe), new_text(recipe))
    for step in range(recipe.steps):
        loss = train_step(trainer, step)
        if rank == 0:
            print(f"step {step}  loss {loss:.6f}", flush=True)
    dist.destroy_process_group()
