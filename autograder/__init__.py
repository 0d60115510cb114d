"""The autograder of SYS-602: `from autograder import check` in a notebook, `autograder grade` for instructors."""

from __future__ import annotations

from typing import Any

__all__ = ["check"]  # pyright: ignore[reportUnsupportedDunderAll] - it comes at first use


def __getattr__(name: str) -> Any:
    """Import `check` at first use: inside the sandbox this file exists alone."""
    if name == "check":
        from autograder.judging.self_check import check

        globals()[name] = check  # importing the file autograder/check.py has put the module under this name
        return check
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
