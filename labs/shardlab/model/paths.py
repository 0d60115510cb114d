"""Modules found by a pattern of their path: `blocks.*.attention` is every block's attention, `blocks.0` the first."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn


def paths_matching(module: nn.Module, pattern: str) -> list[str]:
    """Paths of the modules below `module` that fit; a `*` stands for one name or a part of it.

    Raises ValueError for a pattern that fits none, with the paths that are there.
    """
    wanted = pattern.split(".")
    there = [path for path, _ in module.named_modules() if path]
    found = [path for path in there if _fits(path.split("."), wanted)]
    if not found:
        raise ValueError(f"no module is called {pattern!r}: use paths among {', '.join(sorted(there)[:40])}")
    return found


def _fits(names: list[str], wanted: list[str]) -> bool:
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))
