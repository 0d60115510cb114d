"""Hide the modules that implement what an exercise asks for, and say so when an answer uses one.

The files are hidden as well, see `confine` and `contained`; this module makes the failure readable.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

UNAVAILABLE = "is not available to this answer"
_SENTENCE = re.compile(rf"[A-Za-z]+Error: (shardlab[\w.]* {UNAVAILABLE}: .+)")
_STUDENTS = re.compile(r'  File "(<(?!frozen )|[^"]*ipykernel_)')  # a frame of a cell or of `mine`
_emptied: list[tuple[dict[str, Any], str]] = []  # the namespaces of modules that `mask` emptied, and their names


def sentence(module: str) -> str:
    """Name the hidden module and the remedy, for an answer that uses it."""
    return f"{module} {UNAVAILABLE}: write what you need from it yourself."


class Masked(importlib.abc.MetaPathFinder):
    """Block imports of hidden modules."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Raise ImportError with the sentence for a hidden module; None lets the next finder look."""
        if is_among(fullname, self._names):
            raise ImportError(sentence(fullname))
        return None


def mask(names: Sequence[str]) -> None:
    """Hide modules of shardlab from later imports, in this process and its forks.

    Modules that were imported already are emptied, because other code may still refer to them.
    """
    sys.meta_path.insert(0, Masked(names))
    known, num_modules = loaded()
    later = list(islice(reversed(sys.modules), max(0, len(sys.modules) - num_modules)))
    for name in [one for one in (*known, *later) if is_among(one, names)]:
        space = sys.modules.pop(name).__dict__
        space.clear()
        space["__getattr__"] = _no_attribute_of(name)
        _emptied.append((space, name))


@functools.cache
def loaded() -> tuple[list[str], int]:
    """The modules of shardlab that were imported at the first call, and the number of all modules.

    The first call comes before the fork: walking through sys.modules changes the reference count of each name, which
    would copy a thousand shared pages, a quarter of all that a rank copies.
    """
    return [name for name in sys.modules if name.split(".")[0] == "shardlab"], len(sys.modules)


def is_among(module: str, names: Sequence[str]) -> bool:
    """Whether a module has one of these names or is inside a package with one of them."""
    return any(module == name or module.startswith(name + ".") for name in names)


def _no_attribute_of(module: str) -> Callable[[str], Any]:
    def get(_: str) -> Any:
        raise AttributeError(sentence(module))

    return get


def explained(error: BaseException, text: str) -> str:
    """A traceback's text, whose last line names the hidden module if a function of that module raised a NameError.

    Such a function was imported before its module was emptied, so it finds none of the module's names.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if not isinstance(error, NameError) or place is None:
        return text
    names = [name for space, name in _emptied if space is place.tb_frame.f_globals]
    return "\n".join([*text.splitlines()[:-1], f"NameError: {sentence(names[0])}"]) if names else text


def said_in(text: str) -> str | None:
    """The sentence in the last line of a traceback, followed by the traceback down to the last line of the student's.

    None if the exception has another reason.
    """
    *lines, last = text.strip().split("\n")
    if (match := _SENTENCE.fullmatch(last)) is None:
        return None
    begins = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    theirs = [number for number in begins if _STUDENTS.match(lines[number])]
    if not theirs:  # at the desk, an answer may fail before any line of it runs
        return match[1]
    end = next((number for number in begins if number > theirs[-1]), len(lines))
    return "\n".join([match[1], "Traceback (most recent call last):", *lines[begins[0] : end]])
