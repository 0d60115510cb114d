"""The calibration of this machine: `shardlab calibrate` writes the file, and the formulas read it through this module.

Rates are those of one rank with a core or a GPU to itself. `Together` describes how N concurrent ranks affect each
other.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from shardlab.costs.traffic import Link

FORMAT = 1
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
CONSTANTS = {"pass_seconds": 3, "linear_seconds": 3, "adam_seconds": 3}  # number of values of each
DEVICES = {"cpu": ("gloo",), "cuda": ("nccl", "nccl-shared", "gloo")}


@dataclass(frozen=True)
class Together:
    """N ranks at the same time.

    slowdown: how many times longer they compute than one alone, until the last one finishes; about N / cores once they
    share cores. hidden: of the communication that a schedule starts early, the share that does not slow down the
    compute it overlaps with; small on cores that both need. links: alpha and beta of each collective as a ring, and of
    a `send`.
    waits: extra seconds that a message between short pieces of work waits for the last rank.
    """

    slowdown: float
    hidden: float
    links: Mapping[str, Link]
    waits: float = 0.0  # absent in older files


@dataclass(frozen=True)
class Calibration:
    """Rates of one rank, and how concurrent ranks affect each other.

    matmul: FLOP/s of a square layer's matmuls, forward and backward, by dtype and side. memory: bytes/s read and
    written by an elementwise operation, by the bytes of one operand. operation: seconds of the smallest operation.
    pass_seconds: forward and backward of a small GPT other than matmuls: fixed, per layer, and per element of a layer's
    input. linear_seconds: forward and backward of linear layers with ReLU other than matmuls: per layer, per input
    element and per weight. adam_seconds: AdamW's step: fixed, per tensor and per parameter. bookkeeping: hooks, buckets
    and shards in a step of DDP and of ZeRO-1, 2 and 3 on one rank: per tensor and per parameter. All in seconds, bytes
    and FLOPs, and in fp32 unless a dtype is named.
    """

    machine: str
    measured: str
    device: str
    transport: str
    cores: int
    memory_bytes: int
    matmul: Mapping[str, Mapping[int, float]]
    memory: Mapping[int, float]
    operation: float
    pass_seconds: tuple[float, float, float]
    linear_seconds: tuple[float, float, float]
    adam_seconds: tuple[float, float, float]
    bookkeeping: tuple[tuple[float, float], ...]
    ranks: Mapping[int, Together]

    def __post_init__(self) -> None:
        _check(self)

    def __hash__(self) -> int:
        return hash((self.machine, self.measured))

    def of_ranks(self, num_ranks: int) -> Together:
        """Measurements with `num_ranks` ranks; one rank has no links. Raises ValueError that lists the measured
        numbers.
        """
        if num_ranks == 1:
            return Together(1.0, 0.0, {})
        if num_ranks not in self.ranks:
            known = ", ".join(map(str, [1, *self.ranks]))
            raise ValueError(
                f"{num_ranks} ranks were not measured here: use {known}, or `shardlab calibrate --ranks {num_ranks}`"
            )
        return self.ranks[num_ranks]


def default_file() -> Path:
    """Path of this machine's calibration: $SHARDLAB_CALIBRATION, or the user's cache."""
    named = os.environ.get("SHARDLAB_CALIBRATION")
    return Path(named) if named else Path.home() / ".cache" / "shardlab" / "calibration.json"


def write_calibration(calibration: Calibration, path: Path) -> None:
    """Write the file atomically; creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps({"format": FORMAT, **asdict(calibration)}, indent=1) + "\n")
    beside.replace(path)


def read_calibration(path: Path | None = None) -> Calibration:
    """The calibration in a file [default: this machine's].

    Raises ValueError with a sentence if the file is missing, truncated, incomplete or inconsistent.
    """
    path = path or default_file()
    again = f"run `shardlab calibrate --out {path}` to measure again"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no calibration in {path}: run `shardlab calibrate --out {path}` first") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}): {again}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON, or is truncated ({error}): {again}") from None
    try:
        return _from_plain(data)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a calibration: {error}; {again}") from None


def _from_plain(data: Any) -> Calibration:
    """Plain JSON data as a Calibration; JSON keys are text and become numbers again here."""
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")
    if data.get("format") != FORMAT:
        raise ValueError(f"its format is {data.get('format')!r}, this version reads {FORMAT}")
    names = [field.name for field in fields(Calibration)]
    missing = [name for name in names if name not in data]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    values = {name: data[name] for name in names}
    values["matmul"] = {dtype: _by_number(rates) for dtype, rates in data["matmul"].items()}
    values["memory"] = _by_number(data["memory"])
    values |= {name: tuple(data[name]) for name in CONSTANTS}
    values["bookkeeping"] = tuple((tensor, parameter) for tensor, parameter in data["bookkeeping"])
    values["ranks"] = {number: _together(one) for number, one in _by_number(data["ranks"]).items()}
    return Calibration(**values)


def _by_number(given: Mapping[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in given.items()}


def _together(data: Mapping[str, Any]) -> Together:
    missing = [field.name for field in fields(Together) if field.default is MISSING and field.name not in data]
    if missing:
        raise ValueError(f"its ranks lack {', '.join(missing)}")
    links = {kind: Link(*link) for kind, link in data["links"].items()}
    return Together(data["slowdown"], data["hidden"], links, data.get("waits", 0.0))


def _check(one: Calibration) -> None:
    """Raises ValueError for values that are impossible or contradict each other."""
    if one.transport not in DEVICES.get(one.device, ()):
        raise ValueError(f"{one.transport!r} on {one.device!r}: use gloo on cpu; nccl, nccl-shared or gloo on cuda")
    datetime.fromisoformat(one.measured)
    _positive("cores", one.cores)
    _positive("memory_bytes", one.memory_bytes)
    _positive("operation", one.operation)
    if not one.matmul.get("float32") or not one.memory:
        raise ValueError("it has no rate of fp32 matmuls, or none of memory")
    for dtype, rates in one.matmul.items():
        for side, rate in rates.items():
            _positive(f"matmul {dtype} {side}", rate)
    for size, rate in one.memory.items():
        _positive(f"memory {size}", rate)
    for name, number in CONSTANTS.items():
        constants = getattr(one, name)
        if len(constants) != number:
            raise ValueError(f"{name} has {len(constants)} numbers, not {number}")
        for value in constants:
            _positive(name, value, or_zero=True)
    if len(one.bookkeeping) != 4:
        raise ValueError(f"bookkeeping has {len(one.bookkeeping)} pairs, not 4: DDP, ZeRO-1, 2 and 3")
    for value in (value for pair in one.bookkeeping for value in pair):
        _positive("bookkeeping", value, or_zero=True)
    for number, together in one.ranks.items():
        _check_together(one, number, together)


def _check_together(one: Calibration, number: int, together: Together) -> None:
    if number < 2:
        raise ValueError(f"{number} ranks have nothing to share: use 2 or more")
    _positive(f"slowdown of {number} ranks", together.slowdown)
    if one.device == "cpu" and together.slowdown < number / one.cores / 2:
        raise ValueError(
            f"{number} ranks on {one.cores} cores cannot each take only {together.slowdown:g} times as long as one"
        )
    _positive(f"waits of {number} ranks", together.waits, or_zero=True)
    if not 0 <= together.hidden <= 1:
        raise ValueError(f"hidden = {together.hidden} is not a share: use a number from 0 to 1")
    missing = [kind for kind in (*COLLECTIVES, "send") if kind not in together.links]
    if missing:
        raise ValueError(f"its links of {number} ranks lack {', '.join(missing)}")
    for kind, link in together.links.items():
        for value in link:
            _positive(f"{kind} between {number} ranks", value, or_zero=True)


def _positive(name: str, value: Any, *, or_zero: bool = False) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or value < 0 or (value == 0 and not or_zero):
        raise ValueError(f"{name} = {value!r} is not a number {'of 0 or more' if or_zero else 'above 0'}")
