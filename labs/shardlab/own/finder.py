"""Make `from mine.zero import mean_slice` find the learner's function, or the course's if there is none yet.

Importing `shardlab` puts this finder on `sys.meta_path`: on pages, in scripts and on ranks. A plain
`torchrun -m mine.train` in the learner's folder does not need it: there `mine` is an ordinary package.
`import shardlab` imports this module, so it must stay light.
"""

from __future__ import annotations

import sys

from shardlab.own.names import PACKAGE

TYPE_CHECKING = False  # type checkers take it as True; `import typing` takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

_served: Mapping[str, tuple[str, str]] | None = None  # set in a sandbox: the only modules that exist


def install() -> None:
    """Install the finder, so that `import mine.zero` finds the learner's functions."""
    if not any(type(one).__name__ == "Finder" and type(one).__module__ == __name__ for one in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def serve(modules: Mapping[str, str] | None, own: Mapping[str, str] | None = None) -> None:
    """Serve `mine` from these modules, {name: source}, without reading files; names in `own` override theirs.

    None goes back to files.
    """
    global _served  # noqa: PLW0603 - one process, one sandbox
    own = own or {}
    _served = None
    if modules is not None:
        _served = {name: (text, own.get(name, "")) for name, text in {**own, **modules}.items()}
    forget()


def forget(module: str = "") -> None:
    """Make the next import read a module again; without a name, all of them."""
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        if not module or name in (PACKAGE, f"{PACKAGE}.{module}"):
            del sys.modules[name]


class Finder:
    """Finds only `mine` and its modules."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module's spec; None if neither the learner nor the course has the module."""
        root, _, module = fullname.partition(".")
        if root != PACKAGE or "." in module:
            return None
        from shardlab.own import loader

        return loader.spec(module, _served)
