"""How a notebook's function travels to the ranks: by value, with the source lines of its cells."""

from __future__ import annotations

import linecache
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from shardlab.meter.place import is_cell


class PerRank:
    """An argument that differs per rank: `run(f, PerRank([a, b]), ranks=2)` calls `f(a)` on rank 0 and `f(b)` on rank 1."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __getitem__(self, rank: int) -> Any:
        return self.values[rank]

    def __len__(self) -> int:
        return len(self.values)


def pack(function: Callable, args: tuple) -> bytes:
    """(function, args, sources) as bytes; functions of notebooks, scripts and tests travel by value.

    Raises TypeError naming what cannot travel (an open file, a lock, a generator, a process group).
    """
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    by_value = module is not None and not _is_installed(module)
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps((function, args, cell_sources()), protocol=pickle.HIGHEST_PROTOCOL)
    except (TypeError, pickle.PicklingError, AttributeError, NotImplementedError) as error:
        name = getattr(function, "__name__", repr(function))
        raise TypeError(
            f"{name}() or one of its arguments cannot travel to the ranks: {error}. Make such an object (an open file, "
            "a lock, a generator, a process group) inside the function, on the rank that uses it."
        ) from None
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def unpack(payload: bytes) -> tuple[Callable, tuple, dict[str, list[str]]]:
    """The inverse of `pack`, on the rank."""
    return pickle.loads(payload)


def cell_sources() -> dict[str, list[str]]:
    """The source lines of every notebook cell run so far, by the file name that its functions carry."""
    return {name: list(entry[2]) for name, entry in linecache.cache.items() if len(entry) == 4 and is_cell(name)}


def show_sources(sources: dict[str, list[str]]) -> None:
    """Let tracebacks and `inspect` find the lines of notebook cells on this rank."""
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _is_installed(module: Any) -> bool:
    """Whether a rank can import the module by itself: ours, the standard library's, an installed package's."""
    if module.__name__ == "__main__":
        return True  # cloudpickle always takes these by value
    file = getattr(module, "__file__", None) or ""
    return module.__name__.split(".")[0] in ("shardlab", "autograder") or not file or "/lib/python" in file
