"""Known answers are read from one file per exercise, and each ends as it must."""

import pytest

from autograder.matrices import known, sample
from autograder.matrices.kill_matrix import IN_SIGHT, row_of
from autograder.matrices.known import answers_of
from autograder.weeks import FOLDERS, WEEKS
from tests.fixed_set import WHOLE

# ---- Every known wrong answer fails and every honest variant passes; the visible check catches nearly all wrong ones.
# The fixed set judges one wrong answer per exercise, and test_own_solutions the page's right one; WHOLE=1 judges all,
# like `make kill-matrix`.

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


# ---- Known answers are cells of one file per exercise; a change that does not fit its answer is refused. -------------

RIGHT = '"""Different: adds."""\n\n\ndef total(a, b):\n    c = a\n    c = a\n    return c + b\n'
PAGE = """# %% exercise="week01.total"
def total(a, b):
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION


# %% check="week01.total" points=1
check("week01.total", total)
"""


@pytest.fixture
def answers(tmp_path):
    """Add cells to the known answers of week01.total, which include one right answer, and return all by name."""
    week = tmp_path / "solutions" / "week01_sums"
    (week / "known").mkdir(parents=True)
    (week / "week01_sums.py").write_text(PAGE)

    def with_cells(cells: str) -> dict[str, known.Known]:
        (week / "known" / "total.py").write_text(f"# %% right_sum\n{RIGHT}\n\n{cells}")
        return {one.name: one for one in known.answers_of("week01.total", tmp_path)}

    return with_cells


def test_a_change_makes_another_answer(answers):
    story = '"""Wrong: subtracts.\n\nNot in sight: b is 0.\n"""'
    both = answers(f'# %% minus of="right_sum"\n{story}\n\n# -    return c + b\n# +    return c - b\n')
    minus, right = both["minus"], both["right_sum"]
    assert list(both) == ["minus", "right_sum"]
    assert (minus.story, minus.is_right, minus.reason) == ("Wrong: subtracts.", False, "b is 0.")
    assert minus.source == RIGHT.replace("Different: adds", "Wrong: subtracts").replace("+", "-").replace(
        "\n\n\n", "\n\n"
    )
    assert right.is_right and right.source == RIGHT and right.story == "Different: adds."


def test_a_change_has_blocks_with_context_and_empty_lines(answers):
    first = "# -def total(a, b):\n# +def total(c, d):\n# +\n#      c = a\n#      c = a\n"
    diff = f"{first}\n# -    return c + b\n# +    return d\n"
    source = answers(f'# %% d of="right_sum"\n"""Wrong: d."""\n\n{diff}')["d"].source
    assert source == '"""Wrong: d."""\n\ndef total(c, d):\n\n    c = a\n    c = a\n    return d\n'


def test_the_page_s_own_solution_is_an_answer_and_can_be_changed(answers):
    change = '# %% less of="right_page"\n"""Wrong: less."""\n\n# -    return a + b\n# +    return a - b\n'
    found = answers(f'# %% right_page from="page"\n"""Different: the page."""\n\nimport torch\n\n{change}')
    code = "import torch\n\n\ndef total(a, b):\n    return a + b\n"
    assert found["right_page"].source == f'"""Different: the page."""\n\n{code}'
    assert found["less"].source == f'"""Wrong: less."""\n\n{code.replace("+", "-")}'


STORY = '"""Wrong: wrong."""\n\n'


@pytest.mark.parametrize(
    ("marks", "body", "words"),
    [
        ('of="right_sum"', f"{STORY}# -    return a\n# +    b", "occur 0 times in right_sum"),
        ('of="right_sum"', f"{STORY}# -    c = a\n# +    c = b", "occur 2 times in right_sum"),
        ('of="right_sum"', f"{STORY}# -   return c + b\n# +   b", "occur 0 times in right_sum"),
        ('of="right_sum"', f"{STORY}# -    return c + b\n\n# -def total(a, b):", "put its blocks in order"),
        ('of="gone"', f"{STORY}# -    return c + b", "no such whole answer above it: use one of right_sum"),
        ('of="right_sum"', f"{STORY}# +    return c", "names no line to change"),
        ('of="right_sum"', f"{STORY}#      return c + b", "changes nothing"),
        ('of="right_sum"', STORY, "lines of a diff must begin with"),
        ('of="right_sum"', f"{STORY}#     return c + b\n# -   b", "occur 0 times in right_sum"),
        ('of="right_sum"', f"{STORY}# return c + b", "lines of a diff must begin with"),
        ('of="right_sum"', f"{STORY}return_c", "lines of a diff must begin with"),
        ('of="right_sum"', "# -    return c + b", "has no docstring"),
        ('why="so"', STORY, "has unknown marks"),
        ('from="book"', STORY, "has unknown marks"),
        ("", "def total(", "is not Python"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(answers, marks, body, words):
    with pytest.raises(ValueError, match=r"total\.py: \[wrong\]") as refused:
        answers(f"# %% wrong {marks}".rstrip() + f"\n{body}\n")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("# %% right_sum", r"\[right_sum\] is the name of two cells"),
        ("# %%", "a cell has no name"),
        ("# %% two words", "cannot parse `# %% two words`"),
    ],
)
def test_a_cell_has_a_name_which_is_taken_once(answers, cell, words):
    with pytest.raises(ValueError, match=rf"total\.py: {words}"):
        answers(f"{cell}\n{STORY}")


def test_a_page_without_the_exercise_has_no_solution(answers, tmp_path):
    (tmp_path / "solutions" / "week01_sums" / "week01_sums.py").write_text(PAGE.replace("total", "other"))
    with pytest.raises(ValueError, match=r"\[right_page\] takes the solution of week01_sums.py"):
        answers('# %% right_page from="page"\n"""Different: the page."""')


def test_a_file_is_named_after_its_exercise():
    files = {f"{week}.{path.stem}" for week, folder in FOLDERS.items() for path in folder.glob("[!_]*.py")}
    assert files == {check.exercise.replace("-", "_") for check in CHECKS}


def test_every_known_answer_belongs_to_an_exercise():
    files = (known.ROOT / "solutions").glob("*/known/*")
    kept = {f"{path.parts[-3].split('_')[0]}.{path.name}" for path in files}
    assert kept == {check.exercise.replace("-", "_") + ".py" for check in CHECKS}
