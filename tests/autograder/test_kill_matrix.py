"""Every kept wrong answer dies and every honest variant lives."""

import pytest

from autograder.checks import WEEKS
from autograder.kill_matrix import mutants_of, rows


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
        for row in rows([week])
        if not row.is_due
    ]
    assert not bad, "\n".join(bad)


def test_every_check_has_three_hints():
    assert {
        check.exercise: len(check.hints) for checks in WEEKS.values() for check in checks if len(check.hints) != 3
    } == {}
