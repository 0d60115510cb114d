"""`check` in a notebook: the verdict as text and as a card."""

from dataclasses import replace
from html.parser import HTMLParser

import nbformat
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient
from nbgrader.utils import determine_grade
from shardlab.ranks.warm import IDLE_LIMIT

from autograder import check, weeks
from autograder.checks.base import Reply, Task, wrong_value
from autograder.checks.difference import Difference, Wrong, wrong
from autograder.judging import self_check
from autograder.judging.card import Result, card
from autograder.judging.compared import comparing, of_sentence
from autograder.judging.judge import Verdict
from autograder.matrices import kill_matrix

# ---- `check` in a notebook uses the same judge and sentences as the grade. -------------------------------------------


def exchange(tensor, *, group):
    partner = dist.get_rank(group) ^ 1
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, group_dst=partner, group=group)
    dist.recv(received, group_src=partner, group=group)
    sending.wait()
    return received


def test_check_is_the_function_whatever_was_imported_before():
    assert kill_matrix and callable(check)


def test_a_right_answer(capsys):
    assert check("week01.exchange", exchange, cases=[{"ranks": 2, "numbers": 4}]) == 2
    assert "✓ week01.exchange: 2 of 2 points" in capsys.readouterr().out


def test_a_wrong_answer_raises_nothing(capsys):
    assert check("week01.exchange", lambda tensor, *, group: -tensor, cases=[{"ranks": 2, "numbers": 4}]) == 0
    assert "are wrong" in capsys.readouterr().out


def test_a_value(capsys):
    assert check("week01.reading", {"messages": 10, "backward_of_copy": "all_reduce", "order": []}) == 0
    assert "order" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"exercise": "week01.exchang"}, "no exercise"),
        ({"exercise": "week01.exchange", "cases": []}, "checks nothing"),
        ({"exercise": "week01.exchange", "cases": [{"ranks": 2}]}, "use the keys of"),
        ({"exercise": "week01.exchange", "cases": [{"ranks": 99, "numbers": 2}]}, "1 to 8"),
    ],
)
def test_bad_calls_get_a_sentence(arguments, words):
    exercise = arguments.pop("exercise")
    with pytest.raises(ValueError, match=words):
        check(exercise, exchange, **arguments)


def test_a_lost_sandbox_tells_what_to_do_and_nobody_else():
    for marks in ({"fault": True}, {"look": True}):
        text = self_check.shown(Verdict("week01.exchange", 0.0, 2.0, "Not graded: the sandbox ended.", **marks), 1)
        assert "Run the cell again" in text and "instructor" not in text


CHECKED = """
from autograder.judging.self_check import Points
print("the verdict")
Points({points})
"""


@pytest.mark.slow
@pytest.mark.parametrize("points", [0.0, 0.5, 2.0])
def test_a_notebook_shows_the_verdict_alone_and_nbgrader_reads_the_points(points):
    cell = nbformat.v4.new_code_cell(CHECKED.format(points=points))
    cell.metadata["nbgrader"] = {"grade": True, "solution": False, "points": 2, "schema_version": 3}
    NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=60, kernel_name="python3").execute()
    verdict, result = cell.outputs
    assert verdict.text == "the verdict\n" and result.data["text/html"] == ""  # what a browser would show of the value
    assert determine_grade(cell) == (points, 2)


# An idle sandbox ends, and a check that came meanwhile keeps it


@pytest.mark.parametrize("checked_meanwhile", [False, True])
def test_only_an_idle_sandbox_is_ended(monkeypatch, checked_meanwhile):
    ended, started = [], []
    monkeypatch.setattr(self_check, "close", lambda: ended.append(True))
    monkeypatch.setattr(self_check.threading.Timer, "start", lambda self: started.extend([self]))
    self_check._end_when_idle()
    if checked_meanwhile:
        self_check._end_when_idle()
    timer = started[0]
    assert timer.daemon and timer.interval == IDLE_LIMIT
    timer.function()
    assert ended == [True] * (not checked_meanwhile)
    self_check._timers.clear()


# ---- A check's result as a card in a notebook: what it shows, what it folds, and that a student's words stay words. --

EXERCISE = "week01.exchange"
WRONG = "On rank 1, 1 of 4 numbers of the tensor from the partner is wrong: number 2 is -3."
RAISED = """With 2 ranks, 4 numbers: Rank 0 raised an exception.
Traceback (most recent call last):
  File "/tmp/ipykernel_4711/123.py", line 6, in exchange
    return partners["<b>no</b>"]
  File "/home/ada/.venv/lib/python3.12/site-packages/torch/nn/module.py", line 9, in call
KeyError: '<b>no</b>'
Hint: Write down the calls of both partners."""
DEADLOCK = """With 2 ranks, 4 numbers: Deadlock: 2 of 2 ranks wait.
  rank 0 waits in recv from rank 1
Hint: Write down the calls."""
HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(1)"></div></details>'
ALLOWED = {"div", "span", "b", "pre", "details", "summary", "table", "tr", "th", "td", "code"}


class Shown(HTMLParser):
    """The tags, attributes and text of a card; `outside` is the text that is not folded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text, self.outside, self.folds = set(), [], "", "", 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        self.folds += tag == "details"

    def handle_endtag(self, tag):
        self.folds -= tag == "details"

    def handle_data(self, data):
        self.text += data
        self.outside += "" if self.folds else data


def shown(text: str, points: float = 0.0, **marks) -> Shown:
    """The card of a verdict with this text, out of 2 points."""
    verdict = Verdict(EXERCISE, points, 2.0, text, look=marks.pop("look", False))
    return Shown(card(Result(verdict, num_hints=3, **marks)))


def compared():
    """The comparison behind `WRONG`."""
    received, expected = torch.tensor([1.0, 2.0, -3.0, 4.0]), torch.tensor([1.0, 2.0, 5.0, 4.0])
    inputs = [{"args": [torch.tensor([8.0, 7.0, 6.0, 5.0])]}] * 2
    sentence = wrong_value(1, received, expected, "the tensor from the partner")
    assert sentence == WRONG and isinstance(sentence, Wrong)
    return of_sentence(sentence, Task("exchange", 2, inputs, [torch.zeros(4), expected]))


@pytest.mark.parametrize(
    ("points", "marks", "sign", "word"),
    [
        (2.0, {}, "✓", "right"),
        (1.0, {}, "◐", "partly right"),
        (0.0, {}, "✗", "not right yet"),
        (0.0, {"is_blank": True}, "…", "not answered yet"),
        (0.0, {"look": True}, "!", "could not be judged"),
    ],
)
def test_a_state_has_a_sign_a_word_and_points(points, marks, sign, word):
    one = shown("", points, **marks)
    assert one.text == f"{sign}{EXERCISE}: {points:g} of 2 points, {word}" and ("aria-label", word) in one.attributes


def test_a_right_card_says_on_how_many_cases_and_what_was_kept():
    one = shown("Correct.", 2.0, sentence="Right on 3 cases.", notes=["mine/ring.py has your exchange."])
    assert "Right on 3 cases." in one.text and "mine/ring.py" in one.text and "Correct." not in one.text


def test_a_wrong_number_is_compared_on_its_rank_and_input():
    one = Shown(card(Result(Verdict(EXERCISE, 0, 2, f"With 2 ranks: {WRONG}"), compared=[compared()])))
    assert "With 2 ranks: On rank 1" in one.text
    assert one.text.endswith("rankits inputcomparedexpectedreceived1[8.0, 7.0, 6.0, 5.0]number 25-3")


def test_a_comparison_belongs_to_its_own_sentence():
    one = Shown(card(Result(Verdict(EXERCISE, 0, 2, "Rank 0 changes its input."), compared=[compared()])))
    assert "table" not in one.tags


@given(seed=st.integers(0, 9999), dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int64]))
def test_a_sentence_carries_the_first_number_that_differs(seed, dtype):
    rng = torch.Generator().manual_seed(seed)
    expected = torch.randint(-9, 10, (2, 3), generator=rng).to(dtype)
    received = torch.where(torch.rand(2, 3, generator=rng) < 0.5, expected + 1, expected)
    sentence = wrong_value(3, received, expected)
    if torch.equal(received, expected):
        assert sentence is None
        return
    place = int((received != expected).flatten().nonzero()[0])
    values = (expected.flatten()[place].item(), received.flatten()[place].item())
    assert isinstance(sentence, Wrong)
    assert sentence.difference == Difference(3, f"number {place}", *values)
    assert sentence.endswith(f"number {place} is {values[1]:g}.") and type(str(sentence)) is str


def test_numbers_that_look_the_same_are_not_compared():
    sentence = wrong_value(0, torch.tensor([1.0000001]), torch.tensor([1.0]))
    assert isinstance(sentence, Wrong) and of_sentence(sentence, Task("f", 1, [{"args": []}], [])) is None


@pytest.mark.parametrize(
    ("received", "what", "words"),
    [(torch.zeros(4), "shape", ("[2]", "[4]")), (torch.zeros(2).double(), "dtype", ("float32", "float64"))],
)
def test_a_shape_and_a_dtype_are_compared(received, what, words):
    sentence = wrong_value(1, received, torch.zeros(2))
    assert isinstance(sentence, Wrong) and sentence.difference == Difference(1, what, *words)


def test_only_a_sentence_with_a_difference_is_compared():
    found = []
    for sentence in (
        "On rank 1, the result has shape [4], expected [2].",
        wrong_value(0, torch.zeros(1), torch.ones(1)),
    ):
        one = comparing(replace(weeks.find(EXERCISE), judge=lambda *_, text=sentence: text), found)
        assert one.judge({}, Task("f", 1, [{"args": []}], []), Reply([], None, 0, "")) == sentence
    assert [one.difference.expected for one in found] == [1.0]


def test_a_partly_right_card_says_what_is_right():
    assert "✓ Right: forward, loss" in shown("backward: wrong.\nRight: forward, loss.", 1.0).text


def test_a_traceback_is_folded_without_folders():
    one = shown(RAISED)
    assert "Traceback (most recent call last)" in one.text and "Traceback (most" not in one.outside
    assert 'Line 6 of your cell, in exchange:return partners["<b>no</b>"]' in one.outside
    assert "KeyError: '<b>no</b>'" in one.outside
    assert "line 9 of torch/nn/module.py, in call" in one.text
    assert "/tmp" not in one.text and "/home" not in one.text and "4711" not in one.text


def test_the_lines_of_a_deadlock_are_not_folded():
    assert "rank 0 waits in recv from rank 1" in shown(DEADLOCK).outside


def test_hints_are_numbered_and_shown_once():
    one = shown(RAISED, hints={2: "isend returns at once."})
    assert one.text.count("Write down the calls") == 1
    assert "Hint 1 of 3: Write down" in one.outside and "Hint 2 of 3: isend" in one.outside


@pytest.mark.parametrize("form", ["{}", 'Traceback (most recent call last):\n  File "{}", line 1, in f\n    {}\n{}'])
def test_a_students_words_are_never_html(form):
    text = f"With 2 ranks: {form.replace('{}', HOSTILE)}\nRight: {HOSTILE}\nHint: {HOSTILE}"
    one = shown(text, 1.0, notes=[HOSTILE], hints={2: HOSTILE})
    assert one.tags <= ALLOWED and {name for name, _ in one.attributes} <= {"style", "class", "role", "aria-label"}
    assert one.text.count("<script>") >= 5 and one.folds == 0


def test_hostile_comparisons_are_never_html():
    sentence = wrong(f"On rank 0, the result has dtype {HOSTILE}.", Difference(0, HOSTILE, HOSTILE, f"<i>{HOSTILE}"))
    one = of_sentence(sentence, Task("f", 1, [{"args": []}], []))
    assert one and Shown(card(Result(Verdict(EXERCISE, 0, 2, sentence), compared=[one]))).tags <= ALLOWED


def test_a_terminal_prints_no_card(capsys):
    self_check.check(EXERCISE, lambda tensor, *, group: -tensor, cases=[{"ranks": 2, "numbers": 4}], hint=2)
    said = capsys.readouterr().out
    assert said.startswith(f"✗ {EXERCISE}: 0 of 2 points.\nWith 2 ranks, 4 numbers: On rank 0,")
    assert "\nHint 2: isend returns at once" in said and "<div" not in said


CELLS = [
    "from autograder import check\ndef exchange(tensor, *, group):\n    here = {}\n    return here['a<b']",
    f'check("{EXERCISE}", exchange, cases=[{{"ranks": 2, "numbers": 4}}])',
    "exchange = lambda tensor, *, group: -tensor",
    f'check("{EXERCISE}", exchange, cases=[{{"ranks": 2, "numbers": 4}}])',
]


@pytest.mark.slow
def test_a_notebook_keeps_a_card_and_the_plain_text(capsys):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    raised, wrong = (notebook.cells[place].outputs[0] for place in (1, 3))
    assert "Line 4 of your cell, in exchange:return here['a<b']" in Shown(raised.data["text/html"]).outside
    assert raised.output_type == "display_data" and "/ipykernel_" in raised.data["text/plain"]
    self_check.check(EXERCISE, lambda tensor, *, group: -tensor, cases=[{"ranks": 2, "numbers": 4}])
    assert wrong.data["text/plain"] + "\n" == capsys.readouterr().out
    assert "expectedreceived" in Shown(wrong.data["text/html"]).text


@pytest.mark.parametrize(
    ("exercise", "ends"),
    [
        ("week01.exchange", "draws fresh ones."),
        ("week16.reading", "asks the same."),
        ("quiz1.numbers", "asks the same."),
    ],
)
def test_a_right_answer_hears_whether_the_grade_draws_other_cases(exercise, ends):
    assert self_check._right_on(weeks.find(exercise), 2).endswith(ends)
