"""Every kept wrong answer dies and every honest variant lives; what a student sees is nearly what is graded."""

import pytest

from autograder.checks import WEEKS
from autograder.kill_matrix import IN_SIGHT, NOT_IN_SIGHT, mutants_of, row_of
from autograder.matrices import sample

CHECKS = [check for checks in WEEKS.values() for check in checks]
LONGEST_FIRST = sorted(CHECKS, key=lambda check: -check.timeout)  # side by side, nobody waits for them in the end


def test_every_check_has_enemies_and_friends():
    for check in CHECKS:
        names = [path.stem for path in mutants_of(check)]
        assert sum(name.startswith("right_") for name in names) >= 2, check.exercise
        assert sum(not name.startswith("right_") for name in names) >= 4, check.exercise


@pytest.mark.timeout(1200)
@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.isolated
@pytest.mark.parametrize("check", LONGEST_FIRST, ids=lambda check: check.exercise)
def test_all_end_as_they_must(check, judge, pytestconfig):
    rows, paths = [], mutants_of(check)
    if pytestconfig.getoption("fast"):
        wrong = [path for path in paths if not path.stem.startswith("right_")]
        paths = sample.some(sample.of_this_commit(check.exercise), wrong, 1)
    for path in paths:
        rows.append(row_of(judge, check, path))
        judge.end_submission()
    bad = [f"{row.name}: {'lived' if row.lived else 'died'}: {row.text}" for row in rows if not row.is_due]
    assert not bad, "\n".join(bad)
    unexplained = [row.name for row in rows if row.is_unexplained]
    assert not unexplained, "these pass the visible check; say why in a line `Not in sight: …`: " + ", ".join(
        unexplained
    )


def test_nine_of_ten_wrong_answers_die_in_sight():
    """Each that does not is explained, see above: at most one of ten has an explanation."""
    wrong = [path for check in CHECKS for path in mutants_of(check) if not path.stem.startswith("right_")]
    explained = [path for path in wrong if f"\n{NOT_IN_SIGHT}" in path.read_text()]
    assert explained, "or is the line now written in another way?"
    assert len(explained) <= (1 - IN_SIGHT) * len(wrong)


def test_every_check_has_three_hints():
    assert {check.exercise: len(check.hints) for check in CHECKS if len(check.hints) != 3} == {}
