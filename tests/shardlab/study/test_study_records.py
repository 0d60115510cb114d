"""What is recorded and where, and what is computed from it: tries, points, hints, time, cards."""

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from shardlab.study import cards, hints, panels, progress, records, told
from shardlab.study.page import Exercise

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def check(folder, exercise, points, minute=0, **facts):
    facts = {"points": points, "answer": f"{exercise} {minute}"} | facts
    assert not records.note("check", at=NOON + timedelta(minutes=minute), path=folder.path, exercise=exercise, **facts)


def rows(folder):
    return records.read(folder.records)[0]


def standing(folder, name="week01.one"):
    return progress.standings(folder.exercises(), rows(folder))[name]


def test_only_a_learners_folder_has_records(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert records.note("check", exercise="week01.one") == "" and not folder.records.exists()
    monkeypatch.chdir(folder.path / "week01_rings")
    assert records.note("check", exercise="week01.one") == "" and len(rows(folder)) == 1


@pytest.mark.parametrize("name", records.BY_NBGRADER)
def test_nothing_is_recorded_while_nbgrader_runs_a_page(folder, monkeypatch, name):
    monkeypatch.setenv(name, "validate")
    assert records.note("check", path=folder.path) == "" and not folder.records.exists()


def test_a_record_that_cannot_be_written_is_a_sentence(folder):
    folder.records.mkdir()
    assert "not recorded" in records.note("check", path=folder.path)
    assert "not recorded" in records.note("check", path=folder.path, odd=object())


def test_records_of_many_threads_never_mix(folder):
    def write(name):
        for number in range(50):
            records.note("check", path=folder.path, exercise=f"week01.{name}", text="x" * 3000, points=number)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found, unreadable = records.read(folder.records)
    assert (len(found), unreadable) == (200, 0)


def test_a_torn_line_costs_no_other(folder):
    check(folder, "week01.one", 1)
    with folder.records.open("a") as file:
        file.write('{"at": "2026-03-02T12:00:00+00:00", "ev')
    check(folder, "week01.two", 1)
    found, unreadable = records.read(folder.records)
    assert [row["exercise"] for row in found] == ["week01.one", "week01.two"] and unreadable == 1


@pytest.mark.parametrize("line", ["1", "{}", '{"at": 3}', '{"at": "noon"}', "[" * 5000])
def test_odd_lines_are_counted_and_left_out(folder, line):
    folder.records.write_text(line + "\n\n")
    assert records.read(folder.records) == ([], 1)


def test_points_are_the_most_on_the_pages_own_cases(folder):
    check(folder, "week01.one", 2, 0, whole=False)
    check(folder, "week01.one", 1, 1)
    check(folder, "week01.one", 0, 2)
    check(folder, "week01.one", 0, 3, blank=True)
    one = standing(folder)
    assert (one.points, one.tries, one.is_right, one.was_attempted) == (1, 3, False, True)


def test_a_reset_takes_the_points_and_not_the_attempt(folder):
    check(folder, "week01.one", 2)
    records.note("reset", path=folder.path, exercise="week01.one")
    assert standing(folder).points == 0 and standing(folder).was_attempted


def test_the_same_answer_again_is_no_further_attempt(folder):
    for minute in range(5):
        check(folder, "week01.one", 0, minute, answer="same")
    assert standing(folder).tries == 5 and not standing(folder).was_attempted


def test_time_leaves_pauses_out():
    times = [0, 10, 25, 125, 130]
    made = [
        {"at": (NOON + timedelta(minutes=m)).isoformat(), "event": "check", "exercise": "week01.one"} for m in times
    ]
    assert progress.seconds_by_week(made) == {"week01": 30 * 60}


def test_next_is_the_first_open_exercise_of_the_week_touched_last(folder):
    assert progress.next_exercise(progress.weeks(folder, [])).exercise.name == "week01.one"
    check(folder, "week01.two", 2)
    assert progress.next_exercise(progress.weeks(folder, rows(folder))).exercise.name == "week01.one"
    check(folder, "week02.four", 1)
    assert progress.next_exercise(progress.weeks(folder, rows(folder))).exercise.name == "week02.four"
    check(folder, "week02.four", 2)
    assert progress.next_exercise(progress.weeks(folder, rows(folder))).exercise.name == "week01.one"
    for name in ("one", "three"):
        check(folder, f"week01.{name}", 2)
    assert progress.next_exercise(progress.weeks(folder, rows(folder))) is None


def test_hints_open_one_at_a_time_and_a_check_has_shown_the_first(folder):
    check(folder, "week01.one", 0, hint=1)
    found = [hints.next_hint(folder, "week01.on") for _ in range(3)]
    assert [one.opened[-1] for one in found] == ["look there", "write this", "write this"]
    assert [one.is_new for one in found] == [True, True, False] and standing(folder).hints == {1, 2, 3}


def test_hints_that_are_not_there_get_a_sentence(folder):
    with pytest.raises(ValueError, match=r"no hints for week02\.four"):
        hints.next_hint(folder, "week02.four")
    with pytest.raises(ValueError, match="written answer"):
        hints.next_hint(folder, "week02.interview")


SOURCE = """# %% exercise="week01.one"
def one():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% [markdown] manual="week02.interview" points=2
# ### BEGIN SOLUTION
# Because.
# ### END SOLUTION
"""


@pytest.fixture
def with_solutions(folder):
    for week in folder.weeks():
        (folder.course.parent / "solutions" / week).mkdir(parents=True)
        (folder.course.parent / "solutions" / week / f"{week}.py").write_text(SOURCE)
    return folder


def test_the_solution_opens_after_three_different_answers(with_solutions, write_answer):
    write_answer("week01.one", "def one(): return 7")
    for minute in range(3):
        with pytest.raises(ValueError, match=f"different answers checked so far: {minute}"):
            hints.solution(with_solutions, "week01.one")
        check(with_solutions, "week01.one", 0, minute)
    found = hints.solution(with_solutions, "week01.one")
    assert found.course == "def one():\n    return 1" and found.mine == "def one(): return 7"
    assert found.cases == [] and "measured nothing" in found.why_not


def test_code_has_the_colour_of_the_page_around_it():
    found = hints.Solution("week01.one", "def f(x):  # mine\n    return 2 * x", 'def f(x):\n    """Twice."""', [], "no")
    html = panels.as_html(lambda: told.solution(found))
    assert "return" in html and "color" not in html and "font-weight: bold" in html


def test_the_solution_opens_with_all_points(with_solutions):
    check(with_solutions, "week01.one", 2)
    assert hints.solution(with_solutions, "week01.one").course


def test_a_written_answer_opens_once_something_is_written(with_solutions, write_answer):
    with pytest.raises(ValueError, match="still blank"):
        hints.solution(with_solutions, "week02.interview")
    write_answer("week02.interview", "Because it is so.")
    assert hints.solution(with_solutions, "week02.interview").course == "Because."


def test_a_course_without_solutions_says_so(folder):
    check(folder, "week01.one", 2)
    with pytest.raises(ValueError, match="came without its solutions"):
        hints.solution(folder, "week01.one")


def compared(folder, monkeypatch, program):
    monkeypatch.setattr(hints, "PROGRAM", ["-c", program])
    check(folder, "week01.one", 2, measured=[{"case": {"ranks": 2}, "sent_bytes": [8, 16], "calls": [1, 2]}])
    return hints.solution(folder, "week01.one")


def test_what_both_send_is_compared_case_by_case(with_solutions, monkeypatch):
    theirs = [{"case": {"ranks": 2}, "sent_bytes": [8, 8], "calls": [1, 1]}, {"case": {"ranks": 3}, "sent_bytes": [1]}]
    found = compared(with_solutions, monkeypatch, f"print('''{json.dumps(theirs)}''')")
    assert [case.name for case in found.cases] == ["ranks 2"]
    assert found.cases[0].mine["sent_bytes"] == [8, 16] and found.cases[0].course["sent_bytes"] == [8, 8]


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("raise SystemExit('no sandbox here')", "could not be run on this machine: no sandbox here"),
        ("print('{')", "could not be run"),
        ("print('[]')", "different cases"),
    ],
)
def test_what_cannot_be_compared_says_why(with_solutions, monkeypatch, program, sentence):
    assert sentence in compared(with_solutions, monkeypatch, program).why_not


def test_cards_wait_longer_each_time_they_are_known(folder):
    card = cards.cards([])[0]
    now = NOON
    for days in (1, 2, 4, 8, 16, 16):
        cards.answered(folder, card, True, now=now)
        card = cards.cards(rows(folder))[0]
        assert card.due - now == timedelta(days=days)
        now = card.due
    cards.answered(folder, card, False, now=now)
    again = cards.cards(rows(folder))[0]
    assert again.box == 1 and again.due - now == timedelta(days=1)


def test_cards_of_begun_weeks_are_due_and_late_ones_come_first(folder):
    assert cards.due(folder, []) == []
    check(folder, "week01.one", 1)
    mine = cards.due(folder, rows(folder), now=NOON)
    assert mine and {card.week for card in mine} == {"week01"}
    cards.answered(folder, mine[-1], True, now=NOON)
    assert mine[-1].key not in {card.key for card in cards.due(folder, rows(folder), now=NOON)}
    later = cards.due(folder, rows(folder), now=NOON + timedelta(days=3), every_week=True)
    assert later[0].key == mine[-1].key and len(later) == len(cards.cards([]))


def test_cards_are_told_apart_by_their_keys():
    assert len({card.key for card in cards.cards([])}) == len(cards.cards([]))


def test_an_answer_is_known_by_its_source():
    def one():
        return 1

    def other():
        return 2

    assert records.digest([one]) == records.digest([one]) != records.digest([other])
    assert records.digest([3, "a"]) != records.digest([4, "a"])


def test_a_written_answer_has_no_standing():
    written = Exercise("week02.interview", 2, True)
    assert progress.standings({written.name: written}, []) == {}


@pytest.mark.parametrize("recorded", [{}, {"hint": 1}])
def test_a_hint_below_a_check_does_not_repeat_what_it_shows(folder, recorded):
    check(folder, "week01.one", 0, **recorded)
    assert below_a_check(folder, {1}) == "Hint 2 of 3 for week01.one: look there"
    assert below_a_check(folder, {1}).count("\n") == 1 and "no more hints" in below_a_check(folder, {1})
    assert standing(folder).hints == {1, 2, 3}


def below_a_check(folder, shown):
    """The text below the button of a check that has shown these hints."""
    group = told.hints(hints.next_unseen(folder, "week01.one", shown), shown)
    return "\n".join(str(line) for line in group.renderables)
