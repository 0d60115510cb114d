"""Weeks 5 to 13: what a check shows on its page is what it calls public, and what the grade draws is of every kind."""

from random import Random

import pytest
from shardlab import costs

from autograder.authoring import notebooks
from autograder.weeks import WEEKS, find

LATER_WEEKS = [week for week in WEEKS if week >= "week05"]
SEEDS = range(12)


def cases_on_the_page(week: str) -> dict[str, list | None]:
    """The cases that each check on a week's page is given; None: its public ones."""
    shown: dict[str, list | None] = {}

    def check(exercise, *answers, cases=None):
        shown[exercise] = cases

    names = {name: None for one in WEEKS[week] for name in one.names}
    scope = {"check": check, "costs": costs, **names}
    for cell in notebooks.read_source(week).cells:
        if cell.cell_type == "code" and "check(" in cell.source and "import" not in cell.source:
            exec(cell.source, scope)
    return shown


@pytest.mark.parametrize("week", LATER_WEEKS)
def test_a_page_shows_the_public_cases(week):
    shown = cases_on_the_page(week)
    assert sorted(shown) == sorted(check.exercise for check in WEEKS[week])
    for check in WEEKS[week]:
        cases = shown[check.exercise]
        assert cases is None or sorted(map(str, map(sorted_items, cases))) == sorted(
            map(str, map(sorted_items, check.public))
        ), check.exercise


def sorted_items(case: dict) -> list:
    return sorted(case.items())


@pytest.mark.parametrize("week", LATER_WEEKS)
def test_each_page_says_once_what_the_grade_varies(week):
    text = "\n".join(cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "markdown")
    assert text.count("**What the grade varies.**") == 1


def drawn(exercise: str, *names: str) -> list[set]:
    """For each seed the kinds that are judged, public or drawn: the values of some entries of a case."""
    check = find(exercise)
    return [{tuple(case[name] for name in names) for case in (*check.public, *check.draw(Random(s)))} for s in SEEDS]


@pytest.mark.parametrize("exercise", ["week07.gpipe", "week07.one-f-one-b", "week08.zb-h1"])
def test_every_remainder_of_microbatches_by_ranks_is_always_there(exercise):
    for sizes in drawn(exercise, "num_ranks", "num_microbatches"):
        assert {(p, m) for p in range(1, 6) for m in range(1, 2 * p + 2)} <= sizes


def test_a_v_schedule_always_meets_every_number_of_microbatches():
    for kinds in drawn("week08.v-schedule", "part", "num_ranks", "num_microbatches"):
        due = {(part, p, m) for part in ("ZBV", "half") for p in (2, 3, 4) for m in range(2 * p, 4 * p + 1)}
        assert due <= kinds


@pytest.mark.parametrize(
    "exercise", ["week07.neighbours", "week07.pipeline-step", "week08.hooks", "week13.copies", "week13.neighbours"]
)
def test_a_part_of_the_world_is_always_there(exercise):
    check = find(exercise)
    for seed in SEEDS:
        groups = [case["subgroup"] for case in (*check.public, *check.draw(Random(seed))) if "subgroup" in case]
        assert groups and all(sorted(group) == group for group in groups)


@pytest.mark.parametrize("exercise", ["week09.hybrid-step", "week09.same-order", "week09.whole-norm"])
def test_meshes_do_not_depend_on_the_seed(exercise):
    kinds = [sorted(str(list(case["sizes"].items())) for case in find(exercise).draw(Random(seed))) for seed in SEEDS]
    assert all(one == kinds[0] for one in kinds)


def test_layouts_to_filter_never_come_sorted():
    check = find("week10.fitting")
    for seed in SEEDS:
        rng = Random(seed)
        for case in (*check.public, *check.draw(rng)):
            if case["part"] == "fitting" and case["limit_bytes"] > 1:
                fit = check.make(case, rng).expected[0]
                assert len(fit) > 2 and fit != sorted(fit) and fit != sorted(fit, reverse=True)


def test_one_crossing_is_a_tie_and_one_lies_below_the_ranks():
    for cases in drawn("week08.wins", "num_ranks", "weight_gradient", "extra"):
        crossings = [((p - 1) * (2 * w - e) / e, p) for p, w, e in cases]
        assert any(crossing == int(crossing) >= p for crossing, p in crossings)
        assert any(crossing < p - 1 for crossing, p in crossings)
