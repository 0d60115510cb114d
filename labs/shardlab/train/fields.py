"""Turn plain data into frozen dataclasses; for every wrong key or value, the error says what would work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
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
