"""Random changes to a page by the learner and by the course, a few at a time."""

from collections import Counter
from copy import deepcopy
from random import Random

from nbformat import NotebookNode, v4
from shardlab.study.page import content_id, is_answer, marks, name_of

WORDS = ("rank", "group", "bucket", "ring", "stage", "shard", "expert", "token", "layer", "wire")


def given(source: str, kind: str = "markdown") -> NotebookNode:
    return v4.new_markdown_cell(source) if kind == "markdown" else v4.new_code_cell(source)


def exercise(name: str) -> list[NotebookNode]:
    """An exercise cell and its check, as released by nbgrader."""
    own = {"grade": False, "locked": False, "schema_version": 3, "solution": True, "task": False}
    answer = v4.new_code_cell(f"def {name}():\n    raise NotImplementedError", id=f"week01-{name}")
    answer.metadata = NotebookNode(nbgrader=NotebookNode(own | {"grade_id": f"week01-{name}"}))
    its = {"grade": True, "locked": True, "points": 2, "solution": False, "grade_id": f"week01-{name}-check"}
    check = v4.new_code_cell(f'check("week01.{name}", {name})', id=f"week01-{name}-check")
    check.metadata = NotebookNode(nbgrader=NotebookNode(own | its), deletable=False, editable=False)
    return [answer, check]


def named(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The page's cells with the ids assigned by the build."""
    seen = Counter()
    for cell in cells:
        if not marks(cell):
            seen[cell.source] += 1
            cell.id = content_id(cell.cell_type, seen[cell.source], cell.source)
    return cells


def first_page(rng: Random) -> list[NotebookNode]:
    cells = [given("# Week 1"), given("import torch", "code")]
    for name in ("one", "two", "three"):
        cells += [given(f"### {name}\n{sentence(rng)}"), *exercise(name), given(f"show({name})", "code")]
    return named(cells)


def sentence(rng: Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(8))


def learners_turn(cells: list[NotebookNode], rng: Random, number: int) -> None:
    """Answer, add, move or change a few cells. No text is written twice."""
    for turn in range(rng.randrange(4)):
        place, text = rng.randrange(len(cells)), f"# the learner's {number}.{turn}"
        what = rng.choice(["answer", "add", "add", "move", "change", "add on top"])
        if what == "answer":
            answers = [cell for cell in cells if is_answer(cell)]
            if answers:
                rng.choice(answers).source = text
        elif what == "change":
            cells[place].source += f"\n{text}"
        elif what == "move":
            cells.insert(rng.randrange(len(cells)), cells.pop(place))
        else:
            cell = given(text, rng.choice(["markdown", "code"]))
            cells.insert(0 if what == "add on top" else place + 1, cell)


def courses_turn(page: list[NotebookNode], rng: Random, number: int) -> list[NotebookNode]:
    """A newer page: reworded, new, removed and swapped cells; exercises with a changed blank, new and removed."""
    cells = deepcopy(page)
    for turn in range(rng.randrange(1, 4)):
        turns = [_words, _words, _new, _gone, _swapped, _blanks, _checks, _more, _less]
        cells = rng.choice(turns)(cells, rng, f"{number}.{turn}")
    return named(cells)


def _any_given(cells, rng, kinds=("markdown", "code")):
    return rng.choice([place for place, cell in enumerate(cells) if not marks(cell) and cell.cell_type in kinds])


def _words(cells, rng, number):
    cells[_any_given(cells, rng, ["markdown"])].source += f"\nIn other words, {number}: {rng.choice(WORDS)}."
    return cells


def _new(cells, rng, number):
    cells.insert(_any_given(cells, rng) + 1, given(f"New {number}: {sentence(rng)}"))
    return cells


def _gone(cells, rng, number):
    place = _any_given(cells, rng, ["markdown"])
    return cells if place == 0 else [*cells[:place], *cells[place + 1 :]]


def _swapped(cells, rng, number):
    place, other = _any_given(cells, rng), _any_given(cells, rng)
    if 0 not in (place, other):
        cells[place], cells[other] = cells[other], cells[place]
    return cells


def _blanks(cells, rng, number):
    for cell in filter(is_answer, cells):
        cell.source += f"  # blank {number}"
    return cells


def _checks(cells, rng, number):
    for cell in cells:
        if marks(cell).get("grade"):
            cell.source = f"{cell.source.split('  #')[0]}  # check {number}"
    return cells


def _more(cells, rng, number):
    place = _any_given(cells, rng) + 1
    return [*cells[:place], *exercise(f"more-{number.replace('.', '-')}"), *cells[place:]]


def _less(cells, rng, number):
    gone = rng.choice(sorted({_exercise(cell) for cell in cells if marks(cell)} | {"none"}))
    return [cell for cell in cells if not marks(cell) or _exercise(cell) != gone]


def _exercise(cell):
    return name_of(cell).removesuffix("-check")
