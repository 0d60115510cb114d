""""""

import re
from dataclasses import replace

import pytest

from autograder import weeks
from tests.museum import page
from tests.museum.exhibits import EXHIBITS, WITHOUT_A_THREAD, Check
from tests.named_on_pages import is_exercise

# ---- docs/bug-museum.md agrees with what its exhibits measure, reveals no graded fix, and links to existing exhibits.

TEXT = page.PAGE.read_text(encoding="utf-8")
PARAMETERS = [
    pytest.param(number, one, id=one.symptom.__name__)
    for number, one in enumerate(EXHIBITS, 1)
    if not one.needs_megatron  # those are in tests/labs/test_lab04.py
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "exhibit"), PARAMETERS)
def test_an_exhibit_says_what_is_measured(number, exhibit):
    assert page.section(number, exhibit) in TEXT


def test_another_number_is_noticed():
    biases = next(one for one in EXHIBITS if "t4:.0f} biases" in one.title)
    number = EXHIBITS.index(biases) + 1
    assert page.section(number, replace(biases, symptom=lambda: {"t2": 1.0, "t4": 3.0})) in TEXT
    assert page.section(number, replace(biases, symptom=lambda: {"t2": 0.0, "t4": 0.0})) not in TEXT
    with pytest.raises(ValueError, match="calls \\['t2'\\] exact"):
        page.section(number, replace(biases, symptom=lambda: {"t2": 1.0, "t4": 3.0}, exact=("t2",)))


def test_the_rest_of_the_page_is_made_of_the_same_exhibits():
    titles = re.findall(r"^### \d+ · (.*)$", TEXT, re.MULTILINE)
    assert len(titles) == len(EXHIBITS)
    for part in (page.HEAD, page.counted(), page.by_exhibit(titles), page.others(), page.LAST):
        assert part.strip() in TEXT
    in_order = [int(number) for number in re.findall(r"^### (\d+) ·", TEXT, re.MULTILINE)]
    assert in_order == [number for numbers in page.rooms().values() for number in numbers] == sorted(in_order)


def test_each_exhibit_has_a_hunt_and_a_thread():
    for one in EXHIBITS:
        assert is_exercise(one.hunt) and one.threads and one.found_by
        assert len(page.linked(one.threads)) == len(one.threads) == len(set(one.threads))
    assert all(is_exercise(name) for name in WITHOUT_A_THREAD)


def test_each_check_finds_something():
    assert {check for one in EXHIBITS for check in one.found_by} == set(Check)


@pytest.mark.parametrize("week", sorted({one.week for one in EXHIBITS}))
def test_the_museum_has_no_line_of_a_solution(week):
    source = page.notebooks.source_path(week).read_text(encoding="utf-8")
    hunts = {one.hunt for one in EXHIBITS if one.week == week}
    for cell in source.split("# %% exercise=")[1:]:
        if not any(cell.startswith(f'"{hunt}"') for hunt in hunts):
            continue
        for solution in re.findall(r"### BEGIN SOLUTION(.*?)### END SOLUTION", cell, re.DOTALL):
            lines = [line.strip() for line in solution.splitlines() if len(line.strip()) > 12]
            assert lines and not any(line in TEXT for line in lines)


def test_hunts_are_graded_exercises():
    assert all(weeks.find(one.hunt).points for one in EXHIBITS)
