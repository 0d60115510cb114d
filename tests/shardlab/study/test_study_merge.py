"""A newer page with the same answers: whatever learner and course change, nothing the learner wrote is lost."""

from copy import deepcopy
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from random_study import courses_turn, exercise, first_page, given, learners_turn, named
from shardlab.study.merge import merge
from shardlab.study.page import is_answer, marks, name_of


def sources(cells):
    return [cell.source for cell in cells]


def lost(mine, old, new):
    """The learner's texts that are gone after an update: cells whose text is in neither page."""
    theirs = set(sources(old)) | set(sources(new))
    kept = sources(merge(mine, old, new).cells)
    return [cell.source for cell in mine if cell.source not in theirs and cell.source not in kept]


@settings(max_examples=25, deadline=None)
@drawn(st.integers(0, 2**32))
def test_twenty_updates_lose_nothing(seed):
    rng = Random(seed)
    old = first_page(rng)
    mine = deepcopy(old)
    for number in range(20):
        learners_turn(mine, rng, number)
        new = courses_turn(old, rng, number)
        merged = merge(mine, old, new).cells
        assert lost(mine, old, new) == []
        assert sorted(map(name_of, new)) == sorted(
            name for cell in merged if (name := name_of(cell)) in set(map(name_of, new))
        )
        assert len({cell.id for cell in merged}) == len(merged)
        page = {name_of(cell): cell for cell in new}
        for cell in merged:
            if marks(cell) and not is_answer(cell):
                assert cell.source == page[name_of(cell)].source, "a check is the page's"
        blanks = {name_of(cell): cell.source for cell in old}
        for cell in mine:
            if is_answer(cell) and name_of(cell) in page and cell.source != blanks.get(name_of(cell)):
                assert next(one for one in merged if name_of(one) == name_of(cell)).source == cell.source
        assert_same_neighbours(mine, merged, old, new)
        old, mine = new, merged


def assert_same_neighbours(mine, merged, old, new):
    """A learner's own cell is still below the same cell, in its old or new wording."""
    pages, texts = set(map(name_of, [*old, *new])), sources(merged)
    for above, cell in pairwise(mine):
        if name_of(cell) in pages or (name_of(above) in pages and above.source not in texts):
            continue
        assert texts.count(cell.source) == 1
        now = merged[texts.index(cell.source) - 1]
        assert now.source == above.source or name_of(now) == name_of(above)


@pytest.fixture
def page():
    return first_page(Random(0))


def changed(cells, place, source):
    new = deepcopy(cells)
    new[place].source = source
    return named(new)


def test_an_untouched_page_becomes_the_new_one(page):
    new = changed(page, 0, "# Week 1, in other words")
    assert sources(merge(deepcopy(page), page, new).cells) == sources(new)


def test_an_update_twice_is_an_update_once(page):
    mine, new = deepcopy(page), changed(page, 2, page[2].source + " and more")
    learners_turn(mine, Random(3), 0)
    once = merge(mine, page, new).cells
    assert sources(merge(once, page, new).cells) == sources(merge(once, new, new).cells) == sources(once)


def test_an_own_cell_follows_a_cell_in_new_words(page):
    mine = deepcopy(page)
    mine.insert(3, given("my remark"))
    merged = merge(mine, page, changed(page, 2, page[2].source + " and more")).cells
    assert merged[2].source.endswith("and more") and merged[3].source == "my remark"


def test_a_moved_cell_stays_and_the_page_may_be_sorted_again(page):
    mine = deepcopy(page)
    mine.append(mine.pop(1))
    new = deepcopy(page)
    new[2:6], new[6:10] = page[6:10], page[2:6]
    merged = sources(merge(mine, page, named(new)).cells)
    assert merged[-1] == "import torch" and merged[1].startswith("### two")


def test_a_given_cell_that_both_changed_is_there_twice(page):
    mine, new = deepcopy(page), changed(page, 1, "import torch\nimport math")
    mine[1].source = "import torch\nimport numpy"
    merged = merge(mine, page, new)
    assert sources(merged.cells)[1:3] == ["import torch\nimport math", "import torch\nimport numpy"]
    assert any("yours is below it" in line for line in merged.told)


def test_a_given_cell_that_only_the_learner_changed_is_theirs(page):
    mine = deepcopy(page)
    mine[1].source = "import torch\nimport numpy"
    mine[1].outputs, mine[1].execution_count = [], 7
    merged = merge(mine, page, changed(page, 0, "# Week one"))
    assert merged.cells[1].source.endswith("numpy") and merged.cells[1].execution_count == 7


def test_an_exercise_that_is_gone_leaves_the_answer_as_an_own_cell(page):
    mine, new = deepcopy(page), [cell for cell in page if "two" not in name_of(cell)]
    answer = next(cell for cell in mine if name_of(cell) == "week01-two")
    answer.source = "def two(): return 2"
    merged = merge(mine, page, new)
    kept = next(cell for cell in merged.cells if cell.source == answer.source)
    assert not marks(kept) and any("week01.two is no longer on the page" in line for line in merged.told)


def test_an_exercise_that_is_gone_and_was_blank_goes(page):
    new = [cell for cell in page if "two" not in name_of(cell)]
    assert sources(merge(deepcopy(page), page, new).cells) == sources(new)


def test_a_new_exercise_is_told_and_a_deleted_one_comes_back_blank(page):
    mine = [cell for cell in deepcopy(page) if name_of(cell) != "week01-one"]
    merged = merge(mine, page, named([*deepcopy(page), *exercise("four")]))
    assert "week01.four is a new exercise." in merged.told
    assert {"week01-one", "week01-four"} <= set(map(name_of, merged.cells))


def test_of_two_cells_of_one_exercise_the_last_one_is_the_answer(page):
    mine = deepcopy(page)
    twice = deepcopy(next(cell for cell in mine if name_of(cell) == "week01-one"))
    twice.source, twice.id = "def one(): return 1", "a-copy"
    mine.append(twice)
    mine[3].source = "def one(): return 'first thoughts'"
    merged = merge(mine, page, page).cells
    assert next(cell for cell in merged if name_of(cell) == "week01-one").source == twice.source
    assert next(cell for cell in merged if "first thoughts" in cell.source).metadata == {}


def test_cells_that_lost_their_ids_are_known_by_their_text(page):
    mine = deepcopy(page)
    for number, cell in enumerate(mine):
        cell.id = f"other-{number}"
    mine[3].source = "def one(): return 1"
    new = changed(page, 0, "# Week 1, in other words")
    assert len(merge(mine, page, new).cells) == len(new)


def test_pictures_and_outputs_of_an_answer_stay(page):
    mine = deepcopy(page)
    mine[0].attachments = {"a.png": {"image/png": "AAAA"}}
    mine[0].source = "![](attachment:a.png)"
    assert merge(mine, page, page).cells[0].attachments == mine[0].attachments
