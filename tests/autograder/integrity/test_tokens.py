"""What does not matter leaves an answer's tokens as they are; what matters changes them."""

import pytest

from autograder.integrity.tokens import code_tokens, text_tokens

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
