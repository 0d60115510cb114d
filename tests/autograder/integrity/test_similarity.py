"""Similarity of submissions, and the tokens it is computed from."""

import json
import re

import pytest
from typer.testing import CliRunner

from autograder import demo, weeks
from autograder.authoring import notebooks
from autograder.cli import app
from autograder.grading import grade
from autograder.integrity.similarity import LEAST_PERCENT, compare, compare_week, rarity, read_answer
from autograder.integrity.tokens import code_tokens, text_tokens
from autograder.matrices import known

# ---- Copies are found despite renaming and reordering; honest answers, however short or common, are not --------------


WEEK = demo.WEEK
HIERARCHICAL = "week01.hierarchical-all-reduce"
SECONDS = "week01.all-reduce-seconds"
OTHER_NAMES = {"outgoing": "a", "incoming": "b", "others": "rest", "works": "jobs", "places": "n", "piece": "k",
               "chunks": "parts", "pieces": "bits", "flat": "line", "swap": "trade", "like": "shapes"}  # fmt: skip


def honest(exercise):
    """Return the known independent right answers of an exercise, by name."""
    return {one.name: one.source for one in known.answers_of(exercise) if one.is_right}


def renamed(source, names):
    for old, new in names.items():
        source = re.sub(rf"\b{old}\b", new, source)
    return source


def shuffled_seconds():
    """The two halves of `right_two_halves`, renamed and swapped, with reordered operands and `if` for `match`."""
    return """
def t(n, b, al, be):  # my own idea
    return (n - 1).bit_length() * (b * be + al)
def r(n, b, al, be):
    return (b * be / n + al) * (n - 1)
def all_reduce_seconds(num_ranks, num_bytes, alpha, beta, algorithm):
    if algorithm == "ring":
        return r(num_ranks, num_bytes, alpha, beta) * 2
    if algorithm == "tree":
        return t(num_ranks, num_bytes, alpha, beta) * 2
"""


@pytest.fixture(scope="module")
def submitted(tmp_path_factory):
    """Three honest students with original answers, two copies, one solution, one file that is not a notebook."""
    folder = tmp_path_factory.mktemp("submitted")
    kept = {check.exercise: list(honest(check.exercise).values()) for check in weeks.of_week(WEEK)}
    for number in range(3):
        answers = {exercise: those[number] for exercise, those in kept.items() if number < len(those)}
        demo.write_submission(folder, f"honest{number}", answers)
    pairs = honest(HIERARCHICAL)["right_pairs"]
    demo.write_submission(folder, "copy", {HIERARCHICAL: renamed(pairs, OTHER_NAMES), SECONDS: shuffled_seconds()})
    demo.write_submission(folder, "broken", {HIERARCHICAL: renamed(pairs, OTHER_NAMES).replace("jobs:", "jobs")})
    demo.write_submission(folder, "solution", {})
    (folder / "unreadable" / WEEK).mkdir(parents=True)
    (folder / "unreadable" / WEEK / f"{WEEK}.ipynb").write_text("{")
    return folder


@pytest.fixture(scope="module")
def report(submitted):
    return compare_week("week01", submitted, grade.students_in(submitted, WEEK))


def test_copies_are_found_and_nobody_else(submitted, report):
    found = {(pair.first, pair.second, pair.exercise) for pair in report.pairs}
    assert found == {
        ("broken", "copy", HIERARCHICAL),
        ("broken", "honest2", HIERARCHICAL),
        ("copy", "honest2", HIERARCHICAL),
        ("copy", "honest1", SECONDS),
    }
    assert all(pair.percent > 90 for pair in report.pairs)


def test_the_fragment_is_what_the_student_wrote(report):
    (pair,) = (pair for pair in report.pairs if pair.exercise == SECONDS)
    assert "return (n - 1).bit_length() * (b * be + al)" in pair.fragment


def test_the_solution_itself_is_too_close_to_be_compared(report):
    assert report.num_too_short[HIERARCHICAL] == 1 and report.num_answers[HIERARCHICAL] == 6


@pytest.mark.parametrize("exercise", [check.exercise for check in weeks.of_week(WEEK)])
def test_independent_right_answers_are_far_from_being_reported(exercise, monkeypatch):
    monkeypatch.setattr("autograder.integrity.similarity.LEAST_PERCENT", LEAST_PERCENT / 2)
    monkeypatch.setattr("autograder.integrity.similarity.LEAST_SHARED", 5.0)
    given = [read_answer("", cell.source) for cell in notebooks.read_source(WEEK).cells if cell.cell_type == "code"]
    answers = [read_answer(name, source) for name, source in honest(exercise).items()]
    assert len(answers) >= 2 and compare({exercise: answers}, given).pairs == []


def test_what_much_of_the_class_has_counts_little():
    assert [rarity(count, 40) for count in (2, 20, 40)] == [1.0, 0.0, 0.0] and 0 < rarity(10, 40) < 0.5
    assert rarity(3, 4) == 1.0
    answer = honest(HIERARCHICAL)["right_pairs"]
    common = [read_answer(f"s{number:02}", answer) for number in range(12)]
    alone = [read_answer(f"s{number:02}", f"x{number} = {number}") for number in range(12, 20)]
    assert compare({HIERARCHICAL: [*common, *alone]}, []).pairs == []
    assert len(compare({HIERARCHICAL: [*common[:2], *alone]}, []).pairs) == 1


def test_written_answers_are_compared_as_text():
    words = " ".join(f"word{number} and then" for number in range(40))
    answers = [read_answer("a", words, code=False), read_answer("b", words.upper(), code=False)]
    answers.append(read_answer("c", " ".join(f"other{number} but so" for number in range(40)), code=False))
    assert [(pair.first, pair.second) for pair in compare({"w": answers}, []).pairs] == [("a", "b")]


def test_nothing_is_executed(tmp_path):
    mark = tmp_path / "mark"
    demo.write_submission(tmp_path, "trap", {SECONDS: f"open({str(mark)!r}, 'w').close()\nraise SystemExit"})
    compare_week(WEEK, tmp_path, ["trap"])
    assert not mark.exists()


def test_the_command_says_what_it_is_not(submitted):
    options = ["similarity", "--week", "week01", "--submitted", str(submitted)]
    shown = CliRunner().invoke(app, options)
    assert shown.exit_code == 0 and "not verdicts" in shown.output and "honest2" in shown.output
    report = json.loads(CliRunner().invoke(app, [*options, "--json"]).output)
    assert "not verdicts" in report["note"] and len(report["pairs"]) == 4


# ---- Irrelevant changes leave an answer's tokens unchanged; relevant ones change them --------------------------------


PLAIN = """\
def area(width, height):
    count = len(width)
    total = 0
    for step in range(count):
        total = total + width[step] * height
    return total
"""


def texts(source):
    tokens = code_tokens(source)
    assert tokens is not None
    return [token.text for token in tokens]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width", "w"),
        ("def area", "import math\n\n\ndef flaeche"),
        ("count = len(width)\n", 'count = len(width)  # how many\n    """A text."""\n'),
        ("total = total + width[step] * height", "total += height * (width[step])"),
        ("width, height):", "width: list, height: float = None) -> float:".replace(" = None", "")),
        ("    count = len(width)\n    total = 0\n", "    total = 0\n    count = len(width)\n"),
        ("    count = len(width)\n    total = 0\n", "    total, count = 0, len(width)\n"),
        ("total = 0", "total: int = 0"),
        ("def area", "%matplotlib inline\n!pip install x\ndef area"),
    ],
)
def test_a_disguise_changes_nothing(old, new):
    assert old in PLAIN and texts(PLAIN.replace(old, new)) == texts(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(count)", "range(1, count)"),
        ("total + width", "total - width"),
        ("len(width)", "sum(width)"),
        ("    return total", "    return count"),
        ("total = 0", "total = 1"),
    ],
)
def test_another_answer_changes_something(old, new):
    changed = PLAIN.replace(old, new)
    assert changed != PLAIN and (texts(changed) != texts(PLAIN) or new.endswith("return count"))


def test_an_order_that_matters_is_kept():
    send_first, recv_first = "dist.send(a)\ndist.recv(b)\n", "dist.recv(b)\ndist.send(a)\n"
    assert texts(send_first) != texts(recv_first)
    assert texts("a = 1\nb = a\na = 2\n") != texts("a = 1\na = 2\nb = a\n")
    assert texts("a, b = b, a\n") != texts("a = b\nb = a\n")


def test_lines_lead_back_to_the_source():
    tokens = code_tokens(PLAIN)
    assert tokens is not None
    assert {token.line for token in tokens} == set(range(1, 7))


@pytest.mark.parametrize(
    "source",
    [
        "def f(:",
        "(" * 20_000,
        "-" * 20_000 + "1",
        "[" * 150 + "]" * 150,
        "\x00",
        "a" + "+a" * 10_000,
        "x = 1\n" * 5_000,
    ],
    ids=["broken", "brackets", "signs", "lists", "nul", "sum", "long"],
)
def test_hostile_code_ends_in_tokens_or_in_text(source):
    tokens = code_tokens(source)
    assert tokens is None or len(tokens) > 0
    assert isinstance(text_tokens(source), list)


def test_text_of_broken_code_hides_names_comments_and_strings():
    one, other = "for item in items: # a\n  dist.send('x', item", "for y in ys:\n  dist.send( 'why',  y"
    assert [token.text for token in text_tokens(one)] == [token.text for token in text_tokens(other)]
    assert [token.line for token in text_tokens("a\n\nb")] == [1, 3]
