"""Lazy exports: a package imports a name at first use, so formulas need no torch and checks can hide modules.

The explicit imports under `if TYPE_CHECKING` are the only list: pyright, editors and `lazily` read the same lines, so a
misspelled import is an error in the editor, and Tab completes every name. The existing library lazy_loader needs the
list in a second file per package (`__init__.pyi`) and caches imports, so that a check could not hide a module any more.
Python 3.15's `lazy import` statement (PEP 810) will replace this module.
"""

from __future__ import annotations

from _ast import If, ImportFrom, Module, PyCF_ONLY_AST  # importing `ast` itself would take longer than this whole file
from importlib import import_module
from sys import modules

TYPE_CHECKING = False  # type checkers treat it as True; `import typing` takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose `__init__.py` lists its exports (PEP 562).

    Nothing is cached in the package, so a name disappears when its module is hidden later. Raises ValueError for a name
    that is also its module's name: importing the module would replace it.
    """
    homes = _listed_exports(package)
    if hidden := sorted(name for name, home in homes.items() if home == f"{package}.{name}"):
        raise ValueError(f"{package} cannot export {hidden[0]!r}: a module has this name")

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=modules[package])
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted(homes), sorted(homes)


def _listed_exports(package: str) -> dict[str, str]:
    """{name: the module after `from`} for the imports in the first `if` of the package's `__init__.py`."""
    path = str(modules[package].__file__)
    with open(path, encoding="utf-8") as file:
        tree = compile(file.read(), path, "exec", flags=PyCF_ONLY_AST)
    assert isinstance(tree, Module)
    block = next(statement for statement in tree.body if isinstance(statement, If))
    imports = [statement for statement in block.body if isinstance(statement, ImportFrom)]
    return {alias.name: str(one.module) for one in imports for alias in one.names}
