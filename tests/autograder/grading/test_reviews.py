"""Who reviews whose project."""

from collections import Counter

import pytest

from autograder.grading import reviews


@pytest.mark.parametrize(("num", "each"), [(2, 1), (3, 1), (3, 2), (7, 3), (40, 2)])
def test_everybody_writes_and_receives_the_same_number_of_reviews(num, each):
    students = [f"s{number}" for number in range(num)]
    for seed in range(10):
        found = reviews.pairs(students, each, seed)
        assert len(set(found)) == num * each
        assert all(reviewer != author for reviewer, author in found)
        for role in zip(*found, strict=True):
            assert Counter(role) == dict.fromkeys(students, each)
        if num > 2 * each:
            assert not {(author, reviewer) for reviewer, author in found} & set(found)


def test_the_pairs_depend_on_the_seed_and_not_on_the_order_of_names():
    students = list("abcdefgh")
    assert reviews.pairs(students, 1, 3) == reviews.pairs(students[::-1], 1, 3)
    assert reviews.pairs(students, 1, 3) != reviews.pairs(students, 1, 4)


@pytest.mark.parametrize(("num", "each"), [(0, 1), (1, 1), (2, 2), (5, 0)])
def test_too_few_projects_are_a_sentence(num, each):
    with pytest.raises(ValueError, match="ask for fewer|at least one"):
        reviews.pairs(list("abcde")[:num], each, 1)


def test_the_table_holds_one_line_per_review(tmp_path):
    reviews.write([("bob", "ada"), ("ada", "=1+1")], tmp_path / "new" / "reviews.csv")
    assert (tmp_path / "new" / "reviews.csv").read_text().splitlines() == [
        "reviewer,reads the project of",
        "ada,'=1+1",
        "bob,ada",
    ]
