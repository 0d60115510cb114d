"""Read the modules of `mine/` submitted with a page: data from one cell's output, with known names and sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shardlab.own.blocks import unusable
from shardlab.own.pieces import PIECES

from autograder.jobs.statements import PARSING

MOST_LETTERS = 200_000  # in all modules; the course's have 40,000


def modules_in(cells: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], list[str]]:
    """({module: source}, notes) from the last cell that packed `mine`; a note says what was left out and why."""
    packed = [cell["packed"] for cell in cells if cell.get("packed")]
    if not packed:
        return {}, []
    try:
        found = json.loads(packed[-1]) if len(packed[-1]) <= 2 * MOST_LETTERS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        return {}, ["Your mine/ could not be read: run the cell that packs it again, then save and submit the page."]
    if sum(map(len, found.values())) > MOST_LETTERS:
        return {}, [f"Your mine/ was left out because it has more than {MOST_LETTERS:,} characters."]
    modules, notes = {}, []
    for name in PIECES:
        with PARSING:
            reason = unusable(found.get(name, ""))
        if reason:
            notes.append(f"Your mine/{name}.py was replaced by the course's version: {reason}.")
        elif name in found:
            modules[name] = found[name]
    return modules, notes
