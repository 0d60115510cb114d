""""""

import json
from dataclasses import replace
from random import Random

import pytest

from autograder.judging.judge import seed_for
from autograder.matrices import forged, kill_matrix, known, reports, sample, stability
from autograder.matrices.kept import BUILD, RowFile, kept_folder
from autograder.matrices.reports import print_forged, print_stability, write_forged, write_stability
from autograder.weeks import WEEKS
from tests.autograder.sample_checks import DOUBLE_ANSWERS, LUCKY, ONE_MESSAGE_ANSWERS, TRUSTING

# ---- The matrices find the faults they target, resume where they stopped, and a sample of each holds on this commit. -

CHECKS = [check for checks in WEEKS.values() for check in checks]
LONGEST = 15.0  # limit in seconds per job of a sample

# ---- forged ----------------------------------------------------------------------------------------------------------


def behind(check, *names):
    """Rows of the toy check's wrong answers combined with some forgeries."""
    wrong = [name for name in ONE_MESSAGE_ANSWERS if not name.startswith("right_")]
    return [
        forged.Forged(check, answer, ONE_MESSAGE_ANSWERS[answer], name, forged.forgeries()[name])
        for answer in wrong
        for name in names
    ]


def undeserved(check, *names, kept=None):
    rows = forged.judged(behind(check, *names), {check.exercise: ONE_MESSAGE_ANSWERS["right_once"]}, kept)
    return {(row["answer"], row["forgery"]) for row in rows if forged.is_undeserved(row)}


@pytest.mark.isolated
@pytest.mark.slow
def test_a_check_that_trusts_a_rank_is_found_out():
    found = undeserved(TRUSTING, "forged_record", "own_reporter", "stopped_clocks")
    assert found == {("twice", "forged_record"), ("twice", "own_reporter")}


@pytest.mark.isolated
@pytest.mark.slow
def test_a_row_that_is_kept_is_not_judged_again(tmp_path, monkeypatch):
    path = tmp_path / "forged.jsonl"
    found = undeserved(TRUSTING, "forged_record", kept=RowFile(path))
    monkeypatch.setattr(forged, "judged_once", None)
    assert undeserved(TRUSTING, "forged_record", kept=RowFile(path)) == found == {("twice", "forged_record")}


def test_there_are_forgeries_of_every_kind():
    found = forged.forgeries()
    assert len(found) >= 8
    assert all(source.startswith('"""') for source in found.values()), "each has a docstring"


@pytest.mark.isolated
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name in forged.forgeries() if name != "not_numbers"])
def test_a_forgery_leaves_what_is_right_alone(judge, name):
    """Otherwise it would earn nothing because it breaks its answer, not because its lie is detected."""
    values_alone = replace(TRUSTING, judge=lambda *_: None)
    right = ONE_MESSAGE_ANSWERS["right_once"]
    claims = forged.honest(values_alone, right, judge)
    verdict = forged.judged_once(judge, TRUSTING, forged.cell(claims, forged.forgeries()[name], right))
    assert verdict.is_right, verdict.text


@pytest.mark.isolated
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_lie_earns_a_point_in_the_fixed_sample():
    quick = [replace(check, timeout=min(check.timeout, LONGEST)) for check in CHECKS]  # some lies hang
    rows = forged.some(sample.fixed("forged"), forged.everything(quick), 3, 2, 1)
    rights = {row.check.exercise: known.right_of(row.check.exercise).source for row in rows}
    assert [row for row in forged.judged(rows, rights) if forged.is_undeserved(row)] == []


# ---- stability -------------------------------------------------------------------------------------------------------


def seeded(name, seeds):
    return [stability.Seeded(LUCKY, name, DOUBLE_ANSWERS[name], seeds)]


@pytest.mark.slow
def test_a_check_that_draws_its_trap_now_and_then_is_found_out():
    (row,) = stability.judged(seeded("square", 8))
    assert stability.differs(row) and set(row["points"]) == {0, 1}
    (row,) = stability.judged(seeded("right_product", 8))
    assert not stability.differs(row) and row["points"] == [1.0] * 8


@pytest.mark.slow
def test_more_seeds_are_added_to_those_that_are_kept(tmp_path, monkeypatch):
    path = tmp_path / "stability.jsonl"
    (few,) = stability.judged(seeded("square", 3), RowFile(path))
    asked = []
    monkeypatch.setattr(stability, "_points", lambda judge, row, seed: asked.append(seed) or 7.0)
    (more,) = stability.judged(seeded("square", 5), RowFile(path))
    assert asked == [4, 5] and more["points"] == [*few["points"], 7.0, 7.0]


def test_right_answers_get_more_seeds_and_formulas_the_most():
    num = {(row.check.program, row.answer.startswith("right_")): row.num_seeds for row in stability.everything(CHECKS)}
    assert num == {
        ("without_ranks", True): 50,
        ("without_ranks", False): 50,
        ("on_rank", True): 20,
        ("on_rank", False): 5,
    }


@pytest.mark.isolated
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_points_do_not_differ_in_the_fixed_sample():
    rows = stability.everything(CHECKS, seeds=6)
    rng = sample.fixed("stability")
    chosen = [
        row
        for program, most in (("on_rank", 4), ("without_ranks", 6))
        for row in sample.some(rng, [row for row in rows if row.check.program == program], most)
    ]
    assert [row for row in stability.judged(chosen) if stability.differs(row)] == []


# ---- in sight --------------------------------------------------------------------------------------------------------

FATAL = next(s for s in range(1, 50) if LUCKY.draw(Random(seed_for(s, LUCKY.exercise))) == [{"n": 5}])


def row_of(judge, name, reason=""):
    answer = known.Known(LUCKY.exercise, name, "Wrong: a toy.", DOUBLE_ANSWERS[name], reason)
    return kill_matrix.row_of(judge, LUCKY, answer, seed=FATAL)


@pytest.mark.parametrize(
    ("name", "reason", "in_sight", "is_unexplained"),
    [
        ("square", "", False, True),
        ("square", "its only visible case is two.", False, False),
        ("ends_at_odd", "", False, True),  # the job shared by all cases is lost, so only the visible check is run
        ("ends", "", True, False),
    ],
)
def test_what_a_student_sees(judge, name, reason, in_sight, is_unexplained):
    row = row_of(judge, name, reason)
    assert not row.lived
    assert (row.in_sight, row.is_unexplained) == (in_sight, is_unexplained)


def test_the_kill_matrix_fails_for_a_wrong_answer_that_lives_in_sight(judge, monkeypatch, capsys):
    shown, hidden = row_of(judge, "ends"), row_of(judge, "square")
    explained = row_of(judge, "square", "its only visible case is two.")

    def verdict(*rows):
        monkeypatch.setattr(kill_matrix, "rows", lambda weeks: iter(rows))
        return reports.print_kill_matrix(["week00"])

    assert verdict(*[shown] * 9, explained) is True
    assert verdict(*[shown] * 9, hidden) is False, "no reason is stated"
    assert verdict(*[shown] * 8, explained, explained) is False, "80% in sight"
    assert "80.0% of the wrong ones die in sight" in capsys.readouterr().out


# ---- kept ------------------------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_off_does_not_spoil_the_next_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    kept = RowFile(path)
    for name in "ab":
        kept.add({"key": name, "exercise": "week01.x", "answer": name})
    path.write_text(path.read_text()[:-9])
    again = RowFile(path)
    assert again.get("a") is not None and again.get("b") is None
    again.add({"key": "c", "exercise": "week01.x", "answer": "c"})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "c"]


def test_rows_of_another_version_go_when_their_week_is_settled(tmp_path):
    kept = RowFile(tmp_path / "rows.jsonl")
    for key, week in (("old", "week02"), ("new", "week02"), ("other", "week01")):
        kept.add({"key": key, "exercise": f"{week}.x", "answer": "a"})
    kept.settle({"week02"}, {"new"})
    assert [row["key"] for row in kept.rows()] == ["other", "new"]


def test_rows_stay_in_build_or_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.delenv("KEPT_ROWS", raising=False)
    assert kept_folder() == BUILD
    monkeypatch.setenv("KEPT_ROWS", str(tmp_path / "new" / "rows"))
    assert kept_folder() == tmp_path / "new" / "rows" and kept_folder().is_dir()


def test_the_tables_count(tmp_path, capsys):
    row = {"key": "k", "exercise": "week01.x", "answer": "a", "forgery": "f", "alone": 0.0, "forged": 2.0, "text": ""}
    print_forged([row])
    write_forged([row, row | {"answer": "right_a"}], tmp_path / "forged.md")
    unstable = {"key": "k", "exercise": "week01.x", "answer": "a", "points": [1.0, None, 0.5]}
    print_stability([unstable])
    write_stability([unstable], tmp_path / "stability.md")
    printed = capsys.readouterr().out
    assert "1 undeserved" in printed and "1 answers whose points differ" in printed
    assert "a behind f" in (tmp_path / "forged.md").read_text()
    assert "1 under seeds 1; 0.5 under seeds 3" in (tmp_path / "stability.md").read_text()


def test_a_sample_is_the_same_on_every_commit():
    rows = list(range(100))
    first, again = (sample.some(sample.fixed("x"), rows, 5) for _ in range(2))
    assert first == again == sorted(first) and len(set(first)) == 5
    assert sample.some(sample.fixed("y"), rows, 5) != first
