"""`from mine.zero import mean_slice`: the learner's function, or the course's where the learner's is still missing.

Importing `shardlab` puts this finder on `sys.meta_path`: on pages, in scripts and on ranks. A plain
`torchrun -m mine.train` in the learner's folder does without: there `mine` is an ordinary package.
Light on purpose: `import shardlab` imports it.
"""

from __future__ import annotations

import sys

from shardlab.own.names import PACKAGE

TYPE_CHECKING = False  # type checkers take it as True; `import typing` takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

_served: Mapping[str, tuple[str, str]] | None = None  # in a sandbox: the only modules there are


def install() -> None:
    """Let `import mine.zero` find the learner's functions from now on."""
    if not any(type(one).__name__ == "Finder" and type(one).__module__ == __name__ for one in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def serve(modules: Mapping[str, str] | None, own: Mapping[str, str] | None = None) -> None:
    """From now on these modules, {name: source}, are all that `mine` has: no file is read. `own` goes over them.

    None: the files again.
    """
    global _served  # noqa: PLW0603 - one process, one sandbox
    own = own or {}
    _served = None
    if modules is not None:
        _served = {name: (text, own.get(name, "")) for name, text in {**own, **modules}.items()}
    forget()


def forget(module: str = "") -> None:
    """Let the next import read a module again, or all of them."""
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        if not module or name in (PACKAGE, f"{PACKAGE}.{module}"):
            del sys.modules[name]


class Finder:
    """Finds `mine` and its modules, and nothing else."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """None for a module that neither the learner nor the course has."""
        root, _, module = fullname.partition(".")
        if root != PACKAGE or "." in module:
            return None
        from shardlab.own import loader

        return loader.spec(module, _served)
