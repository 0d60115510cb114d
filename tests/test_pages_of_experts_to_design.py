"""Weeks 11 to 16 start with at most five imports, none from deep inside a package, and can be read in an evening."""

import ast

import pytest

from autograder.authoring import notebooks

WEEKS = [week for week in notebooks.weeks() if 11 <= int(week[4:6]) <= 16]
MOST_IMPORTS, MOST_WORDS, DEEPEST = 5, 3500, 2


@pytest.mark.parametrize("week", WEEKS)
def test_a_page_opens_briefly(week):
    cells = [cell for cell in notebooks.read_source(week).cells if cell.cell_type == "code"]
    trees = [node for cell in cells for node in ast.parse(cell.source).body]
    imports = [node for node in trees if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    ours = [module for module in modules if module.startswith("shardlab")]
    assert len(imports) <= MOST_IMPORTS and all(module.count(".") < DEEPEST for module in ours)


@pytest.mark.parametrize("week", WEEKS)
def test_a_page_is_read_in_an_evening(week):
    cells = [cell for cell in notebooks.read_source(week).cells if cell.cell_type == "markdown"]
    assert sum(len(cell.source.split()) for cell in cells if "nbgrader" not in cell.metadata) <= MOST_WORDS
