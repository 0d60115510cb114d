"""A verdict's text falls into what a page shows: sentences, the lines behind them, what helps."""

from autograder.grading.render import Told, told


def test_a_sentence_with_its_hint():
    text = "With 2 ranks, 4 numbers: number 3 is 0.\nRight: all-gather.\nHint: Send what you received."
    assert told(text) == Told(
        ["With 2 ranks, 4 numbers: number 3 is 0."], hint="Send what you received.", right="all-gather."
    )


def test_lines_that_explain_a_sentence_are_its_detail():
    text = "Deadlock: 2 of 2 ranks wait.\n  rank 0 waits in send\n  rank 1 waits in send\nHint: Receive first."
    parts = told(text)
    assert parts.sentences == ["Deadlock: 2 of 2 ranks wait."]
    assert parts.detail == text.rsplit("\n", 1)[0] and parts.hint == "Receive first."


def test_the_last_line_of_a_traceback_is_a_sentence():
    lines = ["Rank 0 raised.", "Traceback (most recent call last):", '  File "x", line 1', "    1 / 0"]
    text = "\n".join([*lines, "ZeroDivisionError: by zero"])
    assert told(text).sentences == ["Rank 0 raised.", "ZeroDivisionError: by zero"]
    assert "line 1" in told(text).detail


def test_nothing_was_said():
    assert told("") == Told([])
