"""A training run small enough for tests, on any mesh and in any folder."""

import shardlab
from shardlab.train import from_tables
from shardlab.train.loop import train

TABLES = {
    "model": {"layers": 4, "hidden": 16, "heads": 4, "sequence": 16, "kv_heads": 2},
    "step": {"batch": 8, "microbatches": 2},
    "lr": {"peak": 0.01, "warmup": 2},
    "run": {"steps": 4},
    "log": {"measure": 0, "tensorboard": False, "figure": False},
}
EXPERTS = {"experts": 4, "active": 2, "width": 8, "shared": 1, "bias_rate": 0.01, "gated": True}


def recipe(mesh=None, **sections):
    """The recipe of the small run with some keys of some sections changed."""
    names = {*TABLES, *sections}
    tables = {name: TABLES.get(name, {}) | sections.get(name, {}) for name in names}
    return from_tables(tables | {"mesh": mesh or {}})


def trained(one, ranks, *, timeout=120, hooks=(), observe=False):
    """Summaries by rank."""
    return shardlab.run(train_quietly, one, list(hooks), ranks=ranks, timeout=timeout, observe=observe)


def train_quietly(one, hooks):
    return train(one, hooks=hooks, quiet=True)
