"""Update a page and keep the answers: find the learner's cells and their positions on the new page.

A cell is identified by its name (grade id or id); its earlier text comes from the page released last.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from nbformat import NotebookNode

from shardlab.study.page import exercise_id, is_answer, marks, name_of

Cells = Sequence[NotebookNode]
Named = dict[str, NotebookNode]  # cells of a page, by name
ALIKE = 0.4  # similarity from which a cell counts as a rewording of an older one


@dataclass
class Merged:
    """The cells of the new page with everything of the learner's, and messages for the learner."""

    cells: list[NotebookNode]
    told: list[str] = field(default_factory=list)


def merge(mine: Cells, old: Cells, new: Cells) -> Merged:
    """Merge a learner's cells into a newer page.

    1. match each of the learner's cells with a cell of the page  2. find the matched cells that the learner moved
    3. start from the new page without those  4. insert the learner's cells, also moved ones, after the same neighbor

    old: the page that `mine` was made from. Answers keep their text. A given cell that
    only the learner changed keeps that change. If the page changed it, too, the learner's version goes below the
    page's, as do changed checks. Cells that the page no longer has are removed if the learner never touched them.
    """
    before, after = ({name_of(cell): cell for cell in cells} for cells in (old, new))
    heirs = _heirs(old, new)
    names = _names(mine, before, after, heirs)
    moved = {heirs.get(name, name) for name in _moved(names, list(before))}
    told = _of_the_page(before, after, heirs)

    placed: list[NotebookNode] = [deepcopy(cell) for name, cell in after.items() if name not in moved]
    at = {name_of(cell): cell for cell in placed}
    taken = {cell.get("id") for cell in (*old, *new)}
    ahead: NotebookNode | None = None  # the learner's previous cell, as placed
    for cell, name in zip(mine, names, strict=True):
        page = after.get(heirs.get(name, name)) if name else None
        if page is None:
            if name in before and _same(cell, before[name]):
                continue
            if name in before:
                told.append(f"{_called(before[name])} is no longer on the page; your text was kept.")
            ahead = _insert(placed, ahead, _own(cell, taken))
            continue
        ours = at.get(name_of(page))
        if ours is None:
            ours = _insert(placed, ahead, deepcopy(page))
        fits = _fill(ours, cell, before.get(name, page), page, told)
        ahead = ours if fits else _insert(placed, ours, _own(cell, taken))
    return Merged(placed, told)


def _names(mine: Cells, before: Named, after: Named, heirs: dict[str, str]) -> list[str]:
    """For each of the learner's cells, the name of the page's cell that it matches; "" for a cell they added.

    If several cells have one grade id, the last counts, as in grading; a cell without its id is matched by its text.
    """
    known = before.keys() | after.keys()
    names = [name_of(cell) if name_of(cell) in known else "" for cell in mine]
    for place, name in enumerate(names):
        if name in names[place + 1 :]:
            names[place] = ""
    taken = {heirs.get(name, name) for name in names if name}
    for place, cell in enumerate(mine):
        for name, given in before.items() if not names[place] and not marks(cell) else ():
            if heirs.get(name, name) not in taken and not marks(given) and _same(cell, given):
                names[place] = name
                taken.add(heirs.get(name, name))
                break
    for place, name in enumerate(names):  # after an interrupted change, the old cell and its heir may both exist
        if name and heirs.get(name, name) in {heirs.get(one, one) for one in names[place + 1 :] if one}:
            names[place] = ""
    return names


def _heirs(old: Cells, new: Cells) -> dict[str, str]:
    """{old name: new name} of cells without a grade id that are reworded on the new page."""
    olds, news = [name_of(cell) for cell in old], [name_of(cell) for cell in new]
    kept, heirs = set(olds) & set(news), {}
    for kind, a, b, c, d in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        free = [cell for cell in new[c:d] if name_of(cell) not in kept and not marks(cell)] if kind == "replace" else []
        for cell in old[a:b]:
            if name_of(cell) in kept or marks(cell):
                continue
            place = next((place for place, one in enumerate(free) if _alike(cell, one)), None)
            if place is not None:
                heirs[name_of(cell)] = name_of(free[place])
                free = free[place + 1 :]
    return heirs


def _alike(a: NotebookNode, b: NotebookNode) -> bool:
    if a.cell_type != b.cell_type:
        return False
    return SequenceMatcher(None, a.source.split(), b.source.split(), autojunk=False).ratio() >= ALIKE


def _moved(names: Sequence[str], order: Sequence[str]) -> set[str]:
    """The page's cells that the learner moved: all cells outside a longest subsequence that kept its order."""
    places = {name: place for place, name in enumerate(order)}
    present = [places[name] for name in names if name in places]
    tails: list[int] = []
    lasts: list[int] = []  # for each length, the index in `present` where such a subsequence ends
    above: list[int] = []
    for number, place in enumerate(present):
        length = bisect_left(tails, place)
        above.append(lasts[length - 1] if length else -1)
        tails[length:], lasts[length:] = [place, *tails[length + 1 :]], [number, *lasts[length + 1 :]]
    stayed, number = set(), lasts[-1] if lasts else -1
    while number >= 0:
        stayed.add(present[number])
        number = above[number]
    return {order[place] for place in present if place not in stayed}


def _fill(ours: NotebookNode, cell: NotebookNode, before: NotebookNode, page: NotebookNode, told: list[str]) -> bool:
    """Put the learner's content of a cell into the new page's cell; returns False if it needs a cell below instead."""
    edited = not _same(cell, before) and not _same(cell, page)
    changed = not _same(before, page)
    if not edited:
        if _same(cell, page) and cell.cell_type == page.cell_type:
            _take(ours, cell)
        return True
    if is_answer(page) or not (changed or marks(page) or cell.cell_type != page.cell_type):
        _take(ours, cell)
        if changed:
            told.append(f"{_called(page)}: the page's own text is new; your answer is unchanged.")
        return True
    told.append(f"{_called(page)}: the page now has its new text; yours is below it.")
    return False


def _take(ours: NotebookNode, cell: NotebookNode) -> None:
    """Copy the learner's text, outputs and pictures into a cell of the page."""
    ours.source = cell.source
    ours.metadata = {**cell.metadata, **ours.metadata}
    if ours.cell_type == cell.cell_type == "code":
        ours.outputs, ours.execution_count = deepcopy(cell.get("outputs", [])), cell.get("execution_count")
    if "attachments" in cell and ours.cell_type != "code":
        ours.attachments = deepcopy(cell.attachments)


def _own(cell: NotebookNode, taken: set) -> NotebookNode:
    """A copy of a cell as the learner's own: no exercise, not locked, and a unique id."""
    kept = deepcopy(cell)
    if not kept.get("id") or kept.id in taken:
        kept.id = uuid.uuid4().hex[:12]
    taken.add(kept.id)
    kept.metadata = {
        key: value for key, value in kept.metadata.items() if key not in ("nbgrader", "deletable", "editable")
    }
    return kept


def _insert(placed: list[NotebookNode], ahead: NotebookNode | None, cell: NotebookNode) -> NotebookNode:
    place = next((number for number, one in enumerate(placed, 1) if one is ahead), 0)
    placed.insert(place, cell)
    return cell


def _same(a: NotebookNode, b: NotebookNode) -> bool:
    return a.source.strip() == b.source.strip()


def _called(cell: NotebookNode) -> str:
    """How to name a cell to a learner: by the exercise, its check, or its first words."""
    if grade_id := marks(cell).get("grade_id"):
        check = "the check of " if str(grade_id).endswith("-check") else ""
        return f"{check}{exercise_id(str(grade_id))}"
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"the cell “{first[:40]}{'…' if len(first) > 40 else ''}”"


def _of_the_page(before: Named, after: Named, heirs: dict[str, str]) -> list[str]:
    """Messages about cells that are new, changed or gone on the page itself."""
    told = []
    come, gone = after.keys() - before.keys() - set(heirs.values()), before.keys() - after.keys() - heirs.keys()
    changed = len(heirs) + sum(not _same(before[name], after[name]) for name in before.keys() & after.keys())
    for name in sorted(one for one in come if is_answer(after[one])):
        told.append(f"{_called(after[name])} is a new exercise.")
    counts = {"changed": changed, "new": len(come), "gone": len(gone)}
    told.append("Cells of the page: " + ", ".join(f"{count} {word}" for word, count in counts.items()) + ".")
    return told
