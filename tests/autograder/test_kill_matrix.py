"""Every kept wrong answer dies and every honest variant lives; what a student sees is nearly what is graded."""

from functools import cache

import pytest

from autograder.kill_matrix import IN_SIGHT, Row, mutants_of, rows, share_in_sight
from autograder.weeks import WEEKS


@cache
def judged(week: str) -> tuple[Row, ...]:
    """A week's rows, judged once for the tests below."""
    return tuple(rows([week]))


def test_every_check_has_enemies_and_friends():
    for check in (check for checks in WEEKS.values() for check in checks):
        names = [path.stem for path in mutants_of(check)]
        assert sum(name.startswith("right_") for name in names) >= 2, check.exercise
        assert sum(not name.startswith("right_") for name in names) >= 4, check.exercise


@pytest.mark.timeout(1200)
@pytest.mark.slow
@pytest.mark.parametrize("week", [week for week, checks in WEEKS.items() if checks])
def test_all_end_as_they_must(week):
    bad = [
        f"{row.exercise} {row.name}: {'lived' if row.lived else 'died'}: {row.text}"
        for row in judged(week)
        if not row.is_due
    ]
    if bad:
        judged.cache_clear()  # a second try judges again
    assert not bad, "\n".join(bad)
    unexplained = [f"{row.exercise} {row.name}" for row in judged(week) if row.is_unexplained]
    assert not unexplained, "these pass the visible check; say why in a line `Not in sight: …`: " + ", ".join(
        unexplained
    )


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_nine_of_ten_wrong_answers_die_in_sight():
    every = [row for week, checks in WEEKS.items() if checks for row in judged(week)]
    assert share_in_sight(every) >= IN_SIGHT


def test_every_check_has_three_hints():
    assert {
        check.exercise: len(check.hints) for checks in WEEKS.values() for check in checks if len(check.hints) != 3
    } == {}
