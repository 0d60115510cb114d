"""A package exports names without loading what defines them: no torch for a formula, no module that a check hides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, **names_of: Sequence[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package (PEP 562) that imports its modules' names at first use.

    names_of: {module: the names that it defines}. A module's own name gives the module: `costs.traffic` needs no import
    of its own. Nothing is kept in the package: a name of a module that is hidden later is then gone too. Raises
    ValueError for a name that is also a module's: its import would replace the name.
    """
    home = {name: module for module, names in names_of.items() for name in names}
    if hidden := sorted(home.keys() & names_of.keys()):
        raise ValueError(f"{package} cannot export {hidden[0]!r}: a module has this name")

    def get(name: str) -> Any:
        if name in names_of:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return get
