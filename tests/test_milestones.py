"""docs/milestones.md matches its recomputed rows, and every row points to something that exists."""

import pytest

from tests.milestones import PAGE, ROWS, whole
from tests.named_on_pages import ROOT, is_exercise, path_is_there

NUMBERED_WEEKS = {path.name[:6] for path in ROOT.glob("solutions/week*")} - {"week00"}
LATER = {"week15", "week16"}  # their rows are added with these weeks


def test_the_page_is_what_its_rows_compute():
    assert PAGE.read_text(encoding="utf-8") == whole(), "run `python -m tests.milestones`"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.said[:40])
def test_a_row_leads_to_what_is_there(row):
    assert row.where
    for one in row.where:
        assert is_exercise(one) if one.startswith("week") else path_is_there(one, ROOT)


def test_every_week_has_a_row():
    named = {one.split(".")[0] for row in ROWS for one in row.where if one.startswith("week")}
    assert named | LATER == NUMBERED_WEEKS | LATER
