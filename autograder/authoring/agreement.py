"""Compare a page with its checks. If they disagree, no notebook is built and nothing is graded."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from nbformat import NotebookNode

from autograder import weeks
from autograder.authoring import notebooks
from autograder.checks.base import Check
from autograder.jobs.statements import statements_of


def refuse_disagreement(week: str) -> None:
    """Raise ValueError that names every cell of a week's page that disagrees with the registered checks."""
    week = notebooks.find_week(week)
    problems = list(disagreements(notebooks.page(week), weeks.of_week(week)))
    if problems:
        raise ValueError(f"{week}: " + "; ".join(problems))


def disagreements(page: NotebookNode, registered: Sequence[Check]) -> Iterator[str]:
    """Yield one sentence per disagreement between a page and the checks of its week.

    Grading uses the points of the check; the page repeats them for its readers.
    """
    marked = [cell for cell in page.cells if "nbgrader" in cell.metadata]
    exercises = {_exercise(cell): cell for cell in marked if not cell.metadata.nbgrader.grade}
    check_cells = {_exercise(cell): cell for cell in marked if not cell.metadata.nbgrader.solution}
    for name, times in Counter(check.exercise for check in registered).items():
        if times > 1:
            yield f"{times} files of the week define the check of {name}: keep one"
    for name in [name for name in {**exercises, **check_cells} if name not in {check.exercise for check in registered}]:
        yield f"{name} has no check: add a file with its CHECK to the week's folder in autograder/weeks"
    for check in registered:
        yield from _of_one(check, exercises.get(check.exercise), check_cells.get(check.exercise))


def _of_one(check: Check, exercise: NotebookNode | None, cell: NotebookNode | None) -> Iterator[str]:
    name, own = check.exercise, notebooks.grade_id(check.exercise)
    if exercise is None or cell is None:
        missing = "exercise" if exercise is None else "check"
        yield f'{name} has a registered check but no cell {missing}="{name}" on the page: add the cell'
        return
    points = notebooks.points_of(cell)
    if notebooks.is_optional(cell) != check.optional:
        yield f"only one of the cell {own}-check and its check says that it is optional: change one"
    if points != check.points:
        yield f"the cell {own}-check has points={points:g}, but its check has points={check.points:g}"
    bound = {name for one in statements_of(exercise.source) for name in one.binds}
    if lost := [one for one in check.names if one not in bound]:
        yield f"the cell {own} does not define {', '.join(lost)}, which its check needs"
    if name not in _checked_in(cell.source):
        yield f'the cell {own}-check does not call check("{name}", …)'


def _exercise(cell: NotebookNode) -> str:
    return notebooks.exercise_id(cell.metadata.nbgrader.grade_id)


def _checked_in(source: str) -> set[str]:
    """Return the exercises that a cell checks: the first argument of each call of `check`."""
    return {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"
        if node.args and isinstance(node.args[0], ast.Constant)
    }
