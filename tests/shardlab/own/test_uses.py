"""The map of the trainer matches the imports on the pages."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from shardlab.figures import draw_own_trainer, new_axes
from shardlab.own.pieces import GIVEN, PIECES
from shardlab.own.uses import USES, rows

ROOT = Path(__file__).resolve().parents[3]
ASSEMBLED = 15


def modules_of_mine(path: Path) -> set[str]:
    """The modules of `mine` that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "mine":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("mine."):
            found.add(str(node.module).partition(".")[2])
    return found


def test_the_map_is_what_the_pages_import():
    found = defaultdict(set)
    for page in ROOT.glob("solutions/week*/week*.py"):
        for module in modules_of_mine(page):
            found[module].add(int(page.stem[4:6]))
    for given in (ROOT / "labs" / "shardlab" / "own" / "given").glob("*.py"):
        for module in modules_of_mine(given):
            found[module].add(ASSEMBLED)
    assert found.keys() <= {*PIECES, *GIVEN}
    assert {name: weeks for name, weeks in USES.items() if weeks} == {
        name: tuple(sorted(found[name])) for name in PIECES if name in found
    }


def test_every_module_is_drawn_with_its_weeks():
    _, ax = new_axes()
    sentence = draw_own_trainer(ax, rows(), title="A title")
    texts = [text.get_text() for text in ax.texts]
    assert all(name in texts for name in PIECES)
    assert "zero (6 functions) is written in week 3 and used in weeks 4, 15" in sentence


@pytest.mark.parametrize(
    ("modules", "words"), [({}, "at least one"), ({"a": (30, 1, ())}, "weeks from 0"), ({"a": (3, 1, (2,))}, "before")]
)
def test_a_map_that_cannot_be_is_refused(modules, words):
    _, ax = new_axes()
    with pytest.raises(ValueError, match=words):
        draw_own_trainer(ax, modules, title="A title")
