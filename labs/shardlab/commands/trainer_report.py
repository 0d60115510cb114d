"""Measure the learner's trainer on this machine and write the results to `mine/README.md`."""

from __future__ import annotations

import ast
import io
import os
import platform
import tokenize
from collections import defaultdict
from contextlib import chdir
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import Any

from shardlab.meter.record import record
from shardlab.own import shown
from shardlab.own.names import PACKAGE
from shardlab.own.step_bytes import axes_between
from shardlab.ranks.run import run
from shardlab.study import page
from shardlab.study.folder import Folder

STEPS, RANKS = 10, 8
# as in `mine.program`
DEFAULTS = {"layers": 4, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 64, "batch": 16}
TIMEOUT = 120.0  # seconds per recipe
RECIPES: dict[str, dict[str, Any]] = {
    "dp 2 · pp 2 · tp 2": {"dp": 2, "pp": 2, "tp": 2},
    "dp 2 · cp 2 · tp 2": {"dp": 2, "cp": 2, "tp": 2},
    "dp 2 · pp 2 · ep 2, 4 experts": {"dp": 2, "pp": 2, "ep": 2, "experts": 4},
    **{f"dp 8, ZeRO-{zero}" if zero else "dp 8": {"dp": 8, "zero": zero} for zero in range(4)},
}


@dataclass(frozen=True)
class Measured:
    """One recipe: losses, bytes that a rank sends per step by the axes of the group, median seconds per step."""

    losses: list[float]
    sent_bytes: dict[str, float]
    seconds: float


def train(given: dict[str, Any]) -> Measured:
    """On a rank: train the recipe and count the bytes this rank sends in the last step."""
    import time
    from importlib import import_module  # imported here because `mine` is the learner's and exists only at run time

    import torch.distributed as dist

    program, model, trainer = (import_module(f"{PACKAGE}.{name}") for name in ("program", "model", "train"))
    recipe = program.recipe_of(given, dist.get_world_size())
    groups = program.groups_of(recipe)
    mine = trainer.new_trainer(recipe, groups, model.new_weights(recipe), model.new_text(recipe))
    losses, seconds = [], []
    for step in range(recipe.steps):
        begin = time.perf_counter()
        with record() as bill:
            losses.append(trainer.train_step(mine, step))
        seconds.append(time.perf_counter() - begin)
    sent: dict[str, float] = defaultdict(float)
    for event in bill.events:
        sent[axes_of(program, recipe, event.members)] += event.sent_bytes
    return Measured(losses, {axes: num for axes, num in sent.items() if num}, median(seconds[1:]))


def train_with_torch(given: dict[str, Any]) -> float:
    """On a rank: median seconds per step of a GPT of the same size with torch's DDP or, for ZeRO-3, FSDP2."""
    import time

    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from shardlab.model.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    sizes: dict[str, Any] = {name: DEFAULTS[name] for name in ("layers", "hidden", "heads", "sequence", "vocabulary")}
    network: Any = GPT(GPTConfig(tied=False, **sizes))
    if given.get("zero") == 3:
        for block in network.blocks:
            fully_shard(block)
        fully_shard(network)
    else:
        network = DistributedDataParallel(network)
    optimizer, seconds = torch.optim.SGD(network.parameters(), lr=0.1), []
    rows = DEFAULTS["batch"] // dist.get_world_size()
    tokens = torch.randint(sizes["vocabulary"], (rows, sizes["sequence"] + 1))
    for _ in range(given["steps"]):
        begin = time.perf_counter()
        cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    return median(seconds[1:])


def axes_of(program: Any, recipe: Any, members: Any) -> str:
    """The axes along which a group's ranks differ, such as "dp" or "cp·dp"."""
    axes = axes_between([program.places_of(recipe, rank) for rank in members])
    return "·".join(axis for axis in program.AXES if axis in axes)


def write(folder: Folder) -> str:
    """Measure every recipe and write `mine/README.md`; returns its text. Raises ValueError if a recipe fails."""
    if not (folder.path / PACKAGE).is_dir():
        raise ValueError(f"there is no {folder.path / PACKAGE} yet: first pass a check that adds to your trainer")
    with chdir(folder.path):  # ranks import `mine` from the working directory
        text = _text(folder, [_measured(name, axes) for name, axes in RECIPES.items()])
    page.write(folder.path / PACKAGE / "README.md", text)
    return text


def _measured(name: str, axes: dict[str, Any]) -> str:
    alone = {"experts": axes.get("experts", 0), "steps": STEPS}
    try:
        many = run(train, axes | {"steps": STEPS}, ranks=RANKS, timeout=TIMEOUT)
        (one,) = run(train, alone, ranks=1, timeout=TIMEOUT)
        has_peer = axes.keys() <= {"dp", "zero"} and axes.get("zero") in (None, 0, 3)
        peer = run(train_with_torch, axes | {"steps": STEPS}, ranks=RANKS, timeout=TIMEOUT) if has_peer else []
    except Exception as error:
        raise ValueError(f"{name} failed to train: {str(error).strip().splitlines()[-1]}") from None
    return _row(name, many, one, peer)


def _row(name: str, many: list[Measured], one: Measured, peer: list[float]) -> str:
    off = max(abs(a - b) for each in many for a, b in zip(each.losses, one.losses, strict=True))
    sent = ", ".join(f"{axes} {num:,.0f}" for axes, num in sorted(many[0].sent_bytes.items()))
    took, torchs = 1e3 * max(each.seconds for each in many), f"{1e3 * max(peer):.0f}" if peer else ""
    return f"| {name} | {off:.0e} | {sent} | {took:.0f} | {torchs} |"


def _text(folder: Folder, rows: list[str]) -> str:
    import torch

    files = sorted((folder.path / PACKAGE).glob("*.py"))
    lines = sum(code_lines(path.read_text(encoding="utf-8")) for path in files)
    machine = f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}, gloo, {date.today()}"
    return "\n".join(
        [
            "# My trainer",
            "",
            "It trains a GPT with data, tensor, context, expert and pipeline parallelism. I wrote it in SYS-602:",
            f"{lines} lines of code in {len(files)} modules. {shown.summary(folder)}",
            "",
            "```bash",
            "python -m mine.train recipe.toml",
            "torchrun --standalone --nproc-per-node 8 -m mine.train recipe.toml",
            "```",
            "",
            f"Measured on 8 ranks: {machine}. The loss is compared with one process over {STEPS} steps of SGD.",
            "The torch column is a GPT of the same size with DDP (FSDP2 for ZeRO-3), without microbatches.",
            "",
            "| layout | largest difference in loss | bytes per step from rank 0 | ms per step | torch, ms per step |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def code_lines(source: str) -> int:
    """The number of lines of code, without blank lines, comments and docstrings."""
    bodies = [getattr(node, "body", None) for node in ast.walk(ast.parse(source))]
    every = [one for body in bodies if isinstance(body, list) for one in body]
    texts = [one for one in every if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
    left_out = {line for one in texts for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(source).readline) if one.type not in empty]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - left_out)
