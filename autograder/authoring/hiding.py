"""Weeks that students do not see yet: `hidden.json` in the pages folder lists them, and the study home omits them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from shardlab.study import page

from autograder.authoring import course


def change(weeks: Iterable[str], *, show: bool = False, root: Path = course.ROOT) -> list[str]:
    """Hide weeks, or with `show` make them visible again; return all hidden weeks in order.

    Raises ValueError when no week would remain: students would find an empty course.
    """
    pages = course.pages(root)
    before = set(page.hidden_in(pages))
    after = before.difference(weeks) if show else before.union(weeks)
    if after != before:
        if not {*page.weeks_of(pages), *before}.difference(after):
            raise ValueError("that would hide every week: keep at least one")
        if after:
            page.write(pages / page.HIDDEN, json.dumps(sorted(after), indent=1) + "\n")
        else:
            (pages / page.HIDDEN).unlink()  # nothing is hidden: back to the course as released
    return sorted(after)
