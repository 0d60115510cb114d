"""Every known wrong answer fails and every honest variant passes; the visible check catches nearly all wrong ones.

The fixed set judges one wrong answer per exercise, and test_own_solutions the page's right one; WHOLE=1 judges all,
like `make kill-matrix`.
"""

import pytest

from autograder.matrices import sample
from autograder.matrices.kill_matrix import IN_SIGHT, row_of
from autograder.matrices.known import answers_of
from autograder.weeks import WEEKS
from tests.whole import WHOLE

CHECKS = [check for checks in WEEKS.values() for check in checks]
LONGEST_FIRST = sorted(CHECKS, key=lambda check: -check.timeout)  # in parallel, so that long ones start early
QUICK = [check for check in LONGEST_FIRST if check.timeout < 20]  # limit in seconds per answer
FAST = sample.some(sample.fixed("fast"), QUICK, 12)  # FAST=1 judges one wrong answer of each


def test_every_check_has_enemies_and_friends():
    for check in CHECKS:
        answers = answers_of(check.exercise)
        assert sum(one.is_right for one in answers) >= 2, check.exercise
        assert sum(not one.is_right for one in answers) >= 4, check.exercise


def with_marks(check):
    return pytest.param(check, marks=[] if check in FAST else [pytest.mark.slow], id=check.exercise)


def chosen(check):
    """The answers to judge: all with WHOLE=1, otherwise one wrong answer, the same on every commit."""
    answers = answers_of(check.exercise)
    wrong = [one for one in answers if not one.is_right]
    return answers if WHOLE else sample.some(sample.fixed(check.exercise), wrong, 1)


@pytest.mark.every_case
@pytest.mark.timeout(1200)
@pytest.mark.isolated
@pytest.mark.parametrize("check", [with_marks(check) for check in LONGEST_FIRST])
def test_all_end_as_they_must(check, judge):
    rows = []
    for one in chosen(check):
        rows.append(row_of(judge, check, one))
        judge.end_submission()
    bad = [f"{row.name}: {'lived' if row.lived else 'died'}: {row.text}" for row in rows if not row.ended_as_expected]
    assert not bad, "\n".join(bad)
    unexplained = [row.name for row in rows if row.is_unexplained]
    assert not unexplained, f"these pass the visible check; add a reason, `Not in sight: …`: {unexplained}"


def test_nine_of_ten_wrong_answers_die_in_sight():
    """Each exception is explained, see above: at most one wrong answer in ten has an explanation."""
    wrong = [one for check in CHECKS for one in answers_of(check.exercise) if not one.is_right]
    explained = [one for one in wrong if one.reason]
    assert explained, "no reasons found: has their format changed?"
    assert len(explained) <= (1 - IN_SIGHT) * len(wrong)


def test_every_check_has_three_hints():
    assert {check.exercise: len(check.hints) for check in CHECKS if len(check.hints) != 3} == {}
