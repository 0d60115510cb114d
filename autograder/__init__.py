"""The autograder of SYS-602: `from autograder import check` in a notebook, `autograder grade` for instructors."""

from __future__ import annotations

from typing import Any

__all__ = ["check"]  # pyright: ignore[reportUnsupportedDunderAll] - imported at first use


def __getattr__(name: str) -> Any:
    """Import `check` at first use, because a sandbox contains only this file and `jobs/`."""
    if name == "check":
        from autograder.judging.self_check import check

        globals()[name] = check  # so that the next access does not import again
        return check
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
