"""Send a notebook's function to the ranks: by value, with its working folder, environment and cell sources."""

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
    """An argument with one value per rank: `run(f, PerRank([a, b]), ranks=2)` is `f(a)` on rank 0, `f(b)` on rank 1."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    def __getitem__(self, rank: int) -> Any:
        return self.values[rank]

    def __len__(self) -> int:
        return len(self.values)


def pack(function: Callable, args: tuple) -> bytes:
    """Surroundings and (function, args) as bytes; functions of notebooks, scripts and tests are pickled by value.

    Raises TypeError for objects that cannot be pickled (an open file, a lock, a generator, a process group).
    """
    try:
        with by_value(function):
            packed = _dumps((function, args))
    except Exception as error:  # an object's own pickling code may raise anything
        raise TypeError(
            f"{_name(function)}() or one of its arguments cannot be sent to the ranks: {error}. Create such an object "
            "(an open file, a lock, a generator, a process group) inside the function, on the rank that uses it."
        ) from None
    return pickle.dumps(Surroundings.here()) + packed


def _dumps(what: tuple) -> bytes:
    """Like cloudpickle.dumps, but also pickles modules of a subclass of ModuleType by name.

    torch.distributed.config is such a module: a function that uses both `model.config` and `dist` includes it.
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
_users: Counter[str] = Counter()  # calls now packing from each module: cloudpickle has one list for all threads


@contextmanager
def by_value(function: Any) -> Iterator[None]:
    """Pickle a script's or test's function together with its module's globals, as already happens in a notebook.

    Several threads may pack functions of one module at once: the first registers it, the last unregisters it.
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
    """The inverse of `pack`, on the rank: sets up the surroundings first, so that the function's imports work."""
    stream = io.BytesIO(payload)
    pickle.load(stream).settle()
    return pickle.load(stream)


def pack_result(function: Callable, result: Any) -> bytes:
    """A rank's result as bytes; raises TypeError if it cannot be pickled."""
    import cloudpickle

    try:
        return cloudpickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"the return value of {_name(function)}() cannot be sent back: {error}. Return numbers, tensors, or lists "
            "of them."
        ) from None


def run_payload(payload: bytes, rank: int) -> bytes:
    """Unpack the function, run it as one rank, and pack its result."""
    function, args = unpack(payload)
    result = function(*[argument[rank] if isinstance(argument, PerRank) else argument for argument in args])
    return pack_result(function, result)


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


@dataclass(frozen=True)
class Surroundings:
    """The state a function depends on where it was written: folder, import path, environment, cell sources."""

    folder: str
    path: list[str]
    environment: dict[str, str]
    sources: dict[str, list[str]]

    @classmethod
    def here(cls) -> Surroundings:
        """The surroundings of this process."""
        return cls(os.getcwd(), list(sys.path), child_environment(), cell_sources())

    def settle(self) -> None:
        """Recreate the surroundings in a rank; tracebacks and `inspect` then find the lines of notebook cells."""
        with suppress(OSError):  # the folder is gone, or the rank may not enter it
            os.chdir(self.folder)
        sys.path[:] = self.path
        os.environ.update({name: value for name, value in self.environment.items() if name not in RANK_VARIABLES})
        for name, lines in self.sources.items():
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def child_environment() -> dict[str, str]:
    """Our environment without proxies (loopback needs none) and without the variables of an outer torchrun."""
    started = (*RANK_VARIABLES, OURS)
    kept = {k: v for k, v in os.environ.items() if k not in started and not k.startswith("TORCHELASTIC_")}
    kept = {k: v for k, v in kept.items() if not k.lower().endswith("_proxy")}
    return kept | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "MPLBACKEND": "Agg"}


def cell_sources() -> dict[str, list[str]]:
    """The source lines of every notebook cell run so far, by the file name in its code objects."""
    return {name: list(entry[2]) for name, entry in list(linecache.cache.items()) if len(entry) == 4 and is_cell(name)}


def _is_installed(module: Any) -> bool:
    """Whether a rank can import the module: shardlab, the standard library or an installed package."""
    if module.__name__ == "__main__":
        return True  # cloudpickle always pickles these by value
    file = getattr(module, "__file__", None) or ""
    root = module.__name__.split(".")[0]  # a rank imports `mine` from the working folder, as this process does
    return root in ("shardlab", "mine") or not file or "/lib/python" in file
