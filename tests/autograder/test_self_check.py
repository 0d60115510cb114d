"""`check` in a notebook uses the same judge and sentences as the grade."""

import nbformat
import pytest
import torch
import torch.distributed as dist
from nbclient import NotebookClient
from nbgrader.utils import determine_grade
from shardlab.ranks.warm import IDLE_LIMIT

from autograder import check
from autograder.judging import self_check
from autograder.judging.judge import Verdict
from autograder.matrices import kill_matrix


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
