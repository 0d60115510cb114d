"""Random things that a learner does to a page, and that the course does to it, a few at a time."""

from collections import Counter
from copy import deepcopy
from random import Random

from nbformat import NotebookNode, v4
from shardlab.study.page import content_id, is_answer, marks, name_of

WORDS = "rank group bucket ring stage shard expert token layer wire".split()


def given(source: str, kind: str = "markdown") -> NotebookNode:
    return v4.new_markdown_cell(source) if kind == "markdown" else v4.new_code_cell(source)


def exercise(name: str) -> list[NotebookNode]:
    """An exercise's cell and its check, as nbgrader releases them."""
    own = {"grade": False, "locked": False, "schema_version": 3, "solution": True, "task": False}
    answer = v4.new_code_cell(f"def {name}():\n    raise NotImplementedError", id=f"week01-{name}")
    answer.metadata = NotebookNode(nbgrader=NotebookNode(own | {"grade_id": f"week01-{name}"}))
    its = {"grade": True, "locked": True, "points": 2, "solution": False, "grade_id": f"week01-{name}-check"}
    check = v4.new_code_cell(f'check("week01.{name}", {name})', id=f"week01-{name}-check")
    check.metadata = NotebookNode(nbgrader=NotebookNode(own | its), deletable=False, editable=False)
    return [answer, check]


def named(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The page's cells with the ids that the build gives them."""
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
    """Answer, add, move or change a few cells; what is written is never written twice."""
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


def courses_turn(page: list[NotebookNode], rng: Random, number: int, *, keeps_exercises: bool = False) -> list[NotebookNode]:
    """A newer page: cells in other words, new, gone and swapped; exercises with another blank, new and gone."""
    cells = deepcopy(page)
    for turn in range(rng.randrange(1, 4)):
        plain = [place for place, cell in enumerate(cells) if not marks(cell)]
        place, what = rng.choice(plain), rng.choice(["words", "words", "new", "gone", "swap", "blank", "check", "more", "less"])
        if what == "words" and cells[place].cell_type == "markdown":
            cells[place].source += f"\nIn other words, {number}.{turn}: {rng.choice(WORDS)}."
        elif what == "new":
            cells.insert(place, given(f"New {number}.{turn}: {sentence(rng)}"))
        elif what == "gone" and cells[place].cell_type == "markdown" and len(plain) > 2:
            del cells[place]
        elif what == "swap" and not keeps_exercises:
            other = rng.choice(plain)
            cells[place], cells[other] = cells[other], cells[place]
        elif what == "blank" and not keeps_exercises:
            for cell in cells:
                if is_answer(cell) and rng.random() < 0.5:
                    cell.source += f"  # blank {number}.{turn}"
        elif what == "check" and not keeps_exercises:
            for cell in cells:
                if marks(cell).get("grade") and not is_answer(cell):
                    cell.source = cell.source.split("  #")[0] + f"  # check {number}.{turn}"
        elif what == "more" and not keeps_exercises:
            cells[place:place] = exercise(f"more_{number}_{turn}")
        elif what == "less" and not keeps_exercises:
            names = {name_of(cell).removesuffix("-check") for cell in cells if marks(cell)}
            gone = rng.choice(sorted(names)) if len(names) > 1 else ""
            cells = [cell for cell in cells if not gone or name_of(cell).removesuffix("-check") != gone]
    return named(cells)
