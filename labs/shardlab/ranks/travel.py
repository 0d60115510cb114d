"""How a notebook's function travels to the ranks: by value, with its surroundings and the source lines of its cells."""

from __future__ import annotations

import io
import linecache
import os
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from shardlab.meter.place import is_cell
from shardlab.ranks.rendezvous import OURS

RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK", "LOCAL_WORLD_SIZE")


class PerRank:
    """An argument that differs per rank: `run(f, PerRank([a, b]), ranks=2)` is `f(a)` on rank 0, `f(b)` on rank 1."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __getitem__(self, rank: int) -> Any:
        return self.values[rank]

    def __len__(self) -> int:
        return len(self.values)


def pack(function: Callable, args: tuple) -> bytes:
    """Surroundings and (function, args) as bytes; functions of notebooks, scripts and tests travel by value.

    Raises TypeError naming what cannot travel (an open file, a lock, a generator, a process group).
    """
    try:
        with by_value(function):
            packed = _dumps((function, args))
    except Exception as error:  # whatever an object's own way of being pickled raises
        raise TypeError(
            f"{_name(function)}() or one of its arguments cannot travel to the ranks: {error}. Make such an object (an "
            "open file, a lock, a generator, a process group) inside the function, on the rank that uses it."
        ) from None
    return pickle.dumps(Surroundings.here()) + packed


def _dumps(what: tuple) -> bytes:
    """As cloudpickle's, with modules that have a class of their own by name, too.

    A function that says `model.config` beside `dist` takes torch.distributed.config along, which is one of them.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, ModuleType) and type(obj) is not ModuleType and sys.modules.get(obj.__name__) is obj:
                return import_module, (obj.__name__,)
            return super().reducer_override(obj)

    packed = io.BytesIO()
    Pickler(packed, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    return packed.getvalue()


_registry = threading.Lock()
_users: Counter[str] = Counter()  # calls that pack something of a module now: cloudpickle has one list for all threads


@contextmanager
def by_value(function: Any) -> Iterator[None]:
    """Let a function of a script or test travel with its module's names, as those of a notebook do anyway.

    Several threads may pack functions of one module at once: the first registers it, the last takes it off the list.
    """
    import cloudpickle

    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or _is_installed(module):
        yield
        return
    with _registry:
        _users[module.__name__] += 1
        if _users[module.__name__] == 1:
            cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        with _registry:
            _users[module.__name__] -= 1
            if _users[module.__name__] == 0:
                cloudpickle.unregister_pickle_by_value(module)


def unpack(payload: bytes) -> tuple[Callable, tuple]:
    """The inverse of `pack`, on the rank: first the surroundings, in which the function's imports are then found."""
    stream = io.BytesIO(payload)
    pickle.load(stream).settle()
    return pickle.load(stream)


def pack_result(function: Callable, result: Any) -> bytes:
    """What a rank hands back, as bytes; TypeError when it cannot travel."""
    import cloudpickle

    try:
        return cloudpickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"what {_name(function)}() returned cannot travel back: {error}. Return numbers, tensors, or lists of them."
        ) from None


def run_payload(payload: bytes, rank: int) -> bytes:
    """Run the packed function as one rank and pack its result; the caller's surroundings come first."""
    function, args = unpack(payload)
    result = function(*[argument[rank] if isinstance(argument, PerRank) else argument for argument in args])
    return pack_result(function, result)


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


@dataclass(frozen=True)
class Surroundings:
    """What a function finds around it where it was written: folder, import path, environment, cells' source lines."""

    folder: str
    path: list[str]
    environment: dict[str, str]
    sources: dict[str, list[str]]

    @classmethod
    def here(cls) -> Surroundings:
        """Those of this process."""
        return cls(os.getcwd(), list(sys.path), child_environment(), cell_sources())

    def settle(self) -> None:
        """Give a rank the same; tracebacks and `inspect` then find the lines of notebook cells."""
        with suppress(OSError):  # the folder has gone, or the rank may not enter it
            os.chdir(self.folder)
        sys.path[:] = self.path
        os.environ.update({name: value for name, value in self.environment.items() if name not in RANK_VARIABLES})
        for name, lines in self.sources.items():
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def child_environment() -> dict[str, str]:
    """Our environment without proxies (loopback needs none) and without the ranks of an outer torchrun."""
    started = (*RANK_VARIABLES, OURS)
    kept = {k: v for k, v in os.environ.items() if k not in started and not k.startswith("TORCHELASTIC_")}
    kept = {k: v for k, v in kept.items() if not k.lower().endswith("_proxy")}
    return kept | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "MPLBACKEND": "Agg"}


def cell_sources() -> dict[str, list[str]]:
    """The source lines of every notebook cell run so far, by the file name that its functions carry."""
    return {name: list(entry[2]) for name, entry in list(linecache.cache.items()) if len(entry) == 4 and is_cell(name)}


def _is_installed(module: Any) -> bool:
    """Whether a rank can import the module by itself: ours, the standard library's, an installed package's."""
    if module.__name__ == "__main__":
        return True  # cloudpickle always takes these by value
    file = getattr(module, "__file__", None) or ""
    root = module.__name__.split(".")[0]  # a rank finds `mine` as this process does: from the working folder
    return root in ("shardlab", "mine") or not file or "/lib/python" in file
