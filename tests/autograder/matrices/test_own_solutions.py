""""""

from dataclasses import replace
from random import Random

import pytest
from nbformat import NotebookNode
from shardlab.own.pieces import pieces

from autograder import cli, weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.checks.base import Case, Check
from autograder.grading import grade
from autograder.judging.self_check import close
from autograder.matrices import own_solutions
from autograder.reading import stand_ins
from tests.autograder.tiny_course import make_tiny_course
from tests.fixed_set import WHOLE

# ---- The course's own solutions, submitted as students do, get every automatic point. --------------------------------

SEED = 602  # fixed, so that a failure is caused by the commit; `make own-solutions` judges other seeds


def with_one_case_per_part(check: Check) -> Check:
    """The check with the first drawn case of each part of its points, or a visible one where none is drawn."""

    def draw(rng: Random) -> list[Case]:
        first: dict[str, Case] = {}
        for case in [*check.draw(rng), *check.public]:
            first.setdefault(case.get("part", ""), case)
        return list(first.values())

    return replace(check, public=(), draw=draw)


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.isolated
@pytest.mark.parametrize("week", notebooks.weeks())
def test_a_week_gets_every_automatic_point(week, judge, tmp_path, monkeypatch):
    """On one case per part of an exercise; WHOLE=1 judges all of its cases, as `make own-solutions` does."""
    if not WHOLE:
        find = weeks.find
        monkeypatch.setattr(weeks, "find", lambda exercise: with_one_case_per_part(find(exercise)))
    own_solutions.hand_in(week, tmp_path)
    row = own_solutions.row_of(judge, week, SEED, tmp_path)
    assert row.lost == []
    assert (row.week, row.points) == (week, sum(check.points for check in weeks.of_week(week)))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.isolated
@pytest.mark.parametrize("is_right", [True, False])
def test_a_trainer_handed_in_costs_no_points_whether_right_or_wrong(is_right, judge, tmp_path):
    """Wrong: every function of every earlier week fails. Without one, the course's is used: the test above."""
    week, mine = "week15_capstone_build", stand_ins.sources_of(stand_ins.from_solutions())
    broken = {piece.module: "" for piece in pieces() if piece.week != "week15"}
    for piece in pieces():
        for name in piece.names if piece.module in broken else ():
            broken[piece.module] += f"def {name}(*args, **kwargs):\n    raise RuntimeError('broken')\n\n\n"
    own_solutions.hand_in(week, tmp_path, mine=mine if is_right else mine | broken)
    row = own_solutions.row_of(judge, week, SEED, tmp_path)
    assert (row.lost, row.points) == ([], sum(check.points for check in weeks.of_week(week)))


@pytest.mark.isolated
@pytest.mark.slow
def test_the_command_judges_with_every_seed():
    rows = list(own_solutions.rows(["week00"], seeds=[1, 2]))
    assert [(row.week[:6], row.seed, row.lost) for row in rows] == [("week00", 1, []), ("week00", 2, [])]


def test_a_lost_point_fails_the_command_and_is_named(monkeypatch, capsys):
    rows = [own_solutions.WeekResult("week01_collectives", 1, 15, 17, ["week01.exchange: wrong"])]
    monkeypatch.setattr(own_solutions, "rows", lambda *_: rows)
    with pytest.raises(cli.typer.Exit):
        cli.own_solutions(["week01"], 1, 1)
    assert "week01.exchange: wrong" in capsys.readouterr().out


def test_the_solution_stands_in_the_released_notebook(tmp_path):
    path = own_solutions.hand_in("week04_fsdp", tmp_path)
    handed_in = {cell.id: cell for cell in notebooks.nbformat.read(path, 4).cells}
    released = {cell.id: cell for cell in notebooks.release("week04_fsdp").cells}
    assert path.relative_to(tmp_path).parts[1:] == ("week04_fsdp", "week04_fsdp.ipynb")
    assert handed_in.keys() == released.keys()
    changed = [name for name, cell in released.items() if cell.source != handed_in[name].source]
    assert "week04-step" in changed and all("nbgrader" in released[name].metadata for name in changed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_documented_command_gives_a_week_with_given_helpers_its_points(tmp_path, monkeypatch):
    """`autograder grade`, including its verdict files, in a separate course."""
    root = make_tiny_course(tmp_path)
    (root / "solutions" / "week04_fsdp").symlink_to(ROOT / "solutions" / "week04_fsdp")
    own_solutions.hand_in("week04_fsdp", root / "autograder" / "submitted")
    (verdicts,) = grade.grade("week04", root / "autograder" / "submitted", root=root, seed=7, workers=1)
    lost = {name: one["text"] for name, one in verdicts["exercises"].items() if one["points"] < one["max"]}
    assert lost == {} and (root / "autograder" / "verdicts" / own_solutions.STUDENT / "week04_fsdp.json").exists()


def run_the_page(week: str, until: str) -> dict:
    """Run a notebook's cells up to an exercise, except demonstrations that start ranks; return its names."""
    space: dict = {"__name__": "__main__"}
    for cell in notebooks.read_source(week).cells:
        if cell.cell_type == "code" and not _starts_ranks(cell):
            exec(compile(cell.source, f"<{week} {cell.id}>", "exec"), space)
        if cell.id == until:
            return space
    raise AssertionError(f"no cell {until}")


def _starts_ranks(cell: NotebookNode) -> bool:
    return cell.id.endswith("-check") or "shardlab.run(" in cell.source or "figures.show(" in cell.source


@pytest.mark.slow
def test_the_check_in_the_notebook_and_the_grade_agree_on_given_helpers(capsys):
    space = run_the_page("week04", "week04-step")
    found = weeks.find("week04.step")
    try:
        assert space["check"]("week04.step", space["zero3_step"]) == found.points, capsys.readouterr().out
    finally:
        close()
