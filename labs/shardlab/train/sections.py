"""The sections of a recipe: small frozen dataclasses whose fields declare which values they accept.

They are built from plain data; for every wrong key or value, the error says what would work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from shardlab.meant import instead

Section = TypeVar("Section")
KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


def number(default: float, *, least: float = -math.inf, most: float = math.inf) -> Any:
    """A field for numbers from `least` to `most`."""
    return field(default=default, metadata={"least": least, "most": most})


def needed(*, least: float = 1) -> Any:
    """A field for a number that has no default."""
    return field(metadata={"least": least, "most": math.inf})


def choice(default: Any, *options: Any) -> Any:
    """A field for one of several values."""
    return field(default=default, metadata={"options": options})


def section(kind: type[Section], name: str, given: Any) -> Section:
    """A dataclass from one table of a recipe. Raises ValueError that names the key, the value and what would work."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} = {given!r} is not a table: write [{name}] and put its keys below it")
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key, value in given.items():
        if key not in known:
            raise ValueError(unknown(f"{name}.{key}", key, value, sorted(known)))
    values = {key: _checked(f"{name}.{key}", known[key], value) for key, value in given.items()}
    missing = [key for key, one in known.items() if one.default is MISSING and key not in given]
    if missing:
        raise ValueError(f"{name}.{missing[0]} is missing: give {_wanted(known[missing[0]])}")
    return kind(**values)


def unknown(path: str, key: str, value: Any, known: Sequence[str]) -> str:
    """An error message for an unknown key that suggests the nearest key or lists all."""
    return f"{path} = {value!r}: there is no key {key!r} here; {instead(key, known)}"


def _checked(path: str, one: Field, value: Any) -> Any:
    kind = str(one.type)
    right = {"int": int, "float": int | float, "bool": bool, "str": str}[kind]
    if not isinstance(value, right) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{path} = {value!r} is not {KINDS[kind]}: give {_wanted(one)}")
    options = one.metadata.get("options")
    if options and value not in options:
        raise ValueError(f"{path} = {value!r}: {instead(value, options)}")
    least, most = one.metadata.get("least", -math.inf), one.metadata.get("most", math.inf)
    if kind in ("int", "float") and not least <= value <= most:
        raise ValueError(f"{path} = {value!r}: use {_range(least, most)}")
    return float(value) if kind == "float" else value


def _wanted(one: Field) -> str:
    options = one.metadata.get("options")
    if options:
        return _listed(options)
    words, limits = KINDS[str(one.type)], ""
    if "least" in one.metadata:
        limits = _range(one.metadata["least"], one.metadata["most"])
    return f"{words}, {limits}" if limits else words


def _range(least: float, most: float) -> str:
    if math.isinf(most):
        return "" if math.isinf(least) else f"{least:g} or more"
    return f"{least:g} to {most:g}"


def _listed(options: Sequence[Any]) -> str:
    texts = [str(option) for option in options]
    return ", ".join(texts[:-1]) + f" or {texts[-1]}" if len(texts) > 1 else texts[0]


SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe-v")


@dataclass(frozen=True)
class Model:
    """Sizes of the GPT. kv_heads: 0 means the same as heads. Tokens are bytes, so the vocabulary is at least 256."""

    layers: int = needed()
    hidden: int = needed()
    heads: int = needed()
    sequence: int = needed(least=2)
    vocabulary: int = number(256, least=256)
    kv_heads: int = number(0, least=0)
    tied: bool = True
    gated: bool = False
    rope: bool = False
    dropout: float = number(0.0, least=0, most=0.9)


@dataclass(frozen=True)
class Experts:
    """MoE layers instead of MLPs; experts = 0 is a dense model. active: experts per token, in addition to `shared`."""

    experts: int = number(0, least=0)
    active: int = number(2, least=1)
    width: int = number(64, least=1)
    shared: int = number(0, least=0)
    gated: bool = False
    auxiliary: float = number(0.01, least=0)
    z: float = number(0.0, least=0)
    bias_rate: float = number(0.0, least=0)


@dataclass(frozen=True)
class Axes:
    """Sizes of the axes. dp = 0: computed from the number of ranks. etp = 0: the same as tp. replicas: for HSDP."""

    dp: int = number(0, least=0)
    pp: int = number(1, least=1)
    cp: int = number(1, least=1)
    tp: int = number(1, least=1)
    ep: int = number(1, least=1)
    etp: int = number(0, least=0)
    replicas: int = number(1, least=1)


@dataclass(frozen=True)
class StepConfig:
    """One training step. batch: sequences of all replicas together. microbatches: how many each replica makes of its
    share.

    dtype: of weights and activations in forward and backward; masters, gradients and moments are float32, or float64 if
    dtype is float64. max_norm: of the whole gradient; 0 never clips.
    """

    batch: int = needed()
    microbatches: int = number(1, least=1)
    schedule: str = choice("1f1b", *SCHEDULES)
    zero: int = choice(0, 0, 1, 2, 3)
    recompute: str = choice("none", "none", "selective", "full", "stage")
    dtype: str = choice("float32", "float32", "bfloat16", "float64")
    sequence_parallel: bool = False
    split_vocabulary: bool = False
    context: str = choice("ring", "ring", "ulysses", "gathered")
    layout: str = choice("zigzag", "zigzag", "contiguous", "striped")
    max_norm: float = number(1.0, least=0)


@dataclass(frozen=True)
class Optimizer:
    """AdamW (arXiv 1711.05101) or SGD with momentum."""

    name: str = choice("adamw", "adamw", "sgd")
    weight_decay: float = number(0.1, least=0)
    beta1: float = number(0.9, least=0, most=0.9999)
    beta2: float = number(0.95, least=0, most=0.9999)
    eps: float = number(1e-8, least=0)
    momentum: float = number(0.9, least=0, most=0.9999)


@dataclass(frozen=True)
class LearningRate:
    """The learning rate: linear warm-up to `peak`, then constant, or half a cosine down to floor * peak."""

    peak: float = number(1e-3, least=0)
    warmup: int = number(0, least=0)
    shape: str = choice("cosine", "cosine", "constant")
    floor: float = number(0.1, least=0, most=1)


@dataclass(frozen=True)
class Run:
    """Length, seed, text ("": the course's own pages) and folder for all files ("": none) of a run.

    until: stop after this step although the learning rate is planned for `steps`; 0 runs all steps. threads: of each
    rank's matrix products; use 1 if ranks share cores.
    """

    steps: int = needed()
    until: int = number(0, least=0)
    threads: int = number(1, least=1, most=256)
    seed: int = number(0, least=0)
    text: str = ""
    folder: str = ""


@dataclass(frozen=True)
class Checkpoints:
    """every: steps between checkpoints, 0 for none. at_end: save another after the last step. keep: how many to keep.

    folder "": checkpoints/ in run.folder. asynchronous: write during the steps. resume: from the latest undamaged one.
    """

    folder: str = ""
    every: int = number(0, least=0)
    at_end: bool = True
    keep: int = number(3, least=1)
    asynchronous: bool = True
    resume: bool = True


@dataclass(frozen=True)
class Log:
    """every: steps between log lines. measure: the step whose messages, times and memory are recorded; 0 for none.

    peak_flops: one rank's peak FLOP/s, used by the MFU; 0 means the value that `shardlab calibrate` measured here.
    """

    every: int = number(1, least=1)
    measure: int = number(3, least=0)
    tensorboard: bool = True
    figure: bool = True
    peak_flops: float = number(0.0, least=0)


@dataclass(frozen=True)
class Survival:
    """on_lost_rank: stop; restart all ranks from the last checkpoint, up to `restarts` times; or shrink: continue from
    there with fewer replicas.

    patience: seconds that a rank waits for the others before it gives up, and that it has for its first heartbeat.
    silence: seconds without a heartbeat after which a rank counts as lost. on_not_finite: stop, or skip the step.
    look_for_slow: ranks compare how long they worked every this many steps, 0 for never; on_slow_rank: report the rank
    that works longest, or end it like a lost rank.
    """

    on_lost_rank: str = choice("stop", "stop", "restart", "shrink")
    restarts: int = number(3, least=1, most=100)
    patience: float = number(60.0, least=1, most=3600)
    silence: float = number(15.0, least=2, most=3600)
    on_not_finite: str = choice("stop", "stop", "skip")
    look_for_slow: int = number(0, least=0)
    on_slow_rank: str = choice("say", "say", "end")
