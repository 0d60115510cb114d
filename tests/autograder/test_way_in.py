"""A page is entered through few imports, is read in one sitting, and has small cases worked by hand."""

import ast

import pytest

from autograder.authoring import notebooks

MOST_IMPORTS = 5
MOST_WORDS = 3500
EVERY = notebooks.weeks()
ENTERED = [week for week in EVERY if week < "week05"]  # later pages show other libraries where they are compared


@pytest.mark.parametrize("week", ENTERED)
def test_a_page_needs_five_imports_at_most(week):
    code = [cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "code"]
    trees = [ast.parse("\n".join(line for line in one.splitlines() if not line.startswith("!"))) for one in code]
    found = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(found) <= MOST_IMPORTS, [ast.unparse(node) for node in found]


@pytest.mark.parametrize("week", EVERY)
def test_a_page_opens_with_five_imports_at_most(week):
    first = next(cell.source for cell in notebooks.read_source(week).cells if cell.cell_type == "code")
    assert sum(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(first).body) <= MOST_IMPORTS


@pytest.mark.parametrize("week", EVERY)
def test_a_page_is_read_in_one_sitting(week):
    text = [cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown"]
    assert sum(len(one.split()) for one in text) <= MOST_WORDS


@pytest.mark.parametrize("week", [week for week in EVERY if week != "week00_start"])
def test_cases_by_hand_stand_on_the_page(week):
    text = "\n".join(cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown")
    assert text.lower().count("by hand") >= 4


@pytest.mark.parametrize("week", EVERY)
def test_no_sum_in_the_text_becomes_a_bullet(week):
    text = [cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown"]
    assert [line for one in text for line in one.splitlines() if line.lstrip("> ").startswith("+ ")] == []
