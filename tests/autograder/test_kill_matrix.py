"""Every kept wrong answer dies and every honest variant lives; what a student sees is nearly what is graded.

Of the answers that `make stability` has judged alike under many seeds, with the grader and the week's checks as they
are now, a twelfth of every third exercise's is judged here, others with every commit. A change of the grader has all
answers judged again, a change of a week all of that week's. One of `shardlab` beside meter and ranks has not: WHOLE=1
does.
"""

import pytest

from autograder.matrices import sample, stability
from autograder.matrices.kept import RESULTS, Kept
from autograder.matrices.kill_matrix import IN_SIGHT, row_of
from autograder.matrices.known import answers_of
from autograder.weeks import WEEKS
from tests.whole import WHOLE

CHECKS = [check for checks in WEEKS.values() for check in checks]
LONGEST_FIRST = sorted(CHECKS, key=lambda check: -check.timeout)  # side by side, nobody waits for them in the end
JUDGED_AGAIN = 1 / 3  # the share of the exercises of which a commit judges kept answers again
QUICK = 20  # seconds that an answer may take: --fast judges one wrong answer of each exercise that takes less


def test_every_check_has_enemies_and_friends():
    for check in CHECKS:
        answers = answers_of(check.exercise)
        assert sum(one.is_right for one in answers) >= 2, check.exercise
        assert sum(not one.is_right for one in answers) >= 4, check.exercise


def with_marks(check):
    marks = [pytest.mark.slow, pytest.mark.sampled] if check.timeout < QUICK else [pytest.mark.slow]
    return pytest.param(check, marks=marks, id=check.exercise)


def chosen(check, fast):
    """The answers to judge: those that no kept row speaks for, and of every third exercise a few others."""
    answers, numbers = answers_of(check.exercise), sample.of_this_commit(check.exercise)
    wrong = [one for one in answers if not one.is_right]
    if fast or WHOLE:
        return sample.some(numbers, wrong, 1) if fast else answers
    kept = Kept(RESULTS / "stability.jsonl")
    known = {seeded.answer for seeded in stability.everything([check]) if speaks_for(kept.get(seeded.key), seeded)}
    old = [[one for one in kind if one.name in known] for kind in (wrong, [one for one in answers if one.is_right])]
    is_judged_again = numbers.random() < JUDGED_AGAIN
    again = [one for kind in old for one in sample.some(numbers, kind, -(-len(kind) // 12) if is_judged_again else 0)]
    return [one for one in answers if one.name not in known or one in again]


def speaks_for(row, seeded):
    """Whether a kept row has all seeds that the answer is judged under, and the same points under each."""
    return row is not None and len(row["points"]) >= seeded.num_seeds and not stability.differs(row)


@pytest.mark.every_case
@pytest.mark.timeout(1200)
@pytest.mark.isolated
@pytest.mark.parametrize("check", [with_marks(check) for check in LONGEST_FIRST])
def test_all_end_as_they_must(check, judge, pytestconfig):
    rows = []
    for one in chosen(check, fast=pytestconfig.getoption("fast")):
        rows.append(row_of(judge, check, one))
        judge.end_submission()
    bad = [f"{row.name}: {'lived' if row.lived else 'died'}: {row.text}" for row in rows if not row.ended_as_expected]
    assert not bad, "\n".join(bad)
    unexplained = [row.name for row in rows if row.is_unexplained]
    assert not unexplained, f"these pass the visible check; say why, not_in_sight = …: {unexplained}"


def test_nine_of_ten_wrong_answers_die_in_sight():
    """Each that does not is explained, see above: at most one of ten has an explanation."""
    wrong = [one for check in CHECKS for one in answers_of(check.exercise) if not one.is_right]
    explained = [one for one in wrong if one.reason]
    assert explained, "or is the reason now written in another way?"
    assert len(explained) <= (1 - IN_SIGHT) * len(wrong)


def test_every_check_has_three_hints():
    assert {check.exercise: len(check.hints) for check in CHECKS if len(check.hints) != 3} == {}
