"""What decides a program's points is its code: rows that took hours stay when its words are made better."""

import ast
from pathlib import Path

import pytest

from autograder.matrices.program import DOCUMENTED, without_words

ROOT = Path(__file__).parents[2]
PROGRAM = '''"""Says what it is."""

# A comment with "quotes".
LIMIT = 3  # of these


class One:
    """Documented, with an umlaut: ü."""

    def two(self) -> str:
        """First line.

        More of it.
        """
        return "a # that stays"  # and why
'''


def test_comments_docstrings_and_empty_lines_go():
    assert without_words(PROGRAM) == (
        'LIMIT = 3\nclass One:\n    def two(self) -> str:\n        return "a # that stays"'
    )


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Says what it is.", "Says more.", True),
        ("# and why", "# for another reason", True),
        ("First line.", "First line, and\n        a second.", True),
        ("a # that stays", "another message", False),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("class One:\n", "class One:\n    three = 3\n", False),
    ],
)
def test_only_code_tells_programs_apart(old, new, same):
    assert (without_words(PROGRAM) == without_words(PROGRAM.replace(old, new))) is same


def test_a_string_that_is_no_docstring_stays():
    assert without_words('x = 1\n"""not the first statement"""\n') == 'x = 1\n"""not the first statement"""'


def test_no_code_of_the_grader_is_lost():
    for path in (ROOT / "autograder").rglob("*.py"):
        source = path.read_text()
        assert ast.dump(ast.parse(without_words(source))) == ast.dump(_bare(source)), path


def _bare(source):
    """The tree without docstrings; a class whose docstring is its body passes instead."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
