"""Find modules by path pattern: `blocks.*.attention` matches every block's attention, `blocks.0` the first block."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn


def paths_matching(module: nn.Module, pattern: str) -> list[str]:
    """Paths of the modules inside `module` that match; a `*` matches one name or part of it.

    Raises ValueError with the existing paths if nothing matches.
    """
    wanted = pattern.split(".")
    there = [path for path, _ in module.named_modules() if path]
    found = [path for path in there if _fits(path.split("."), wanted)]
    if not found:
        raise ValueError(f"no module is called {pattern!r}: use paths among {', '.join(sorted(there)[:40])}")
    return found


def _fits(names: list[str], wanted: list[str]) -> bool:
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))
