"""Who reviews whose project, and how reviewers get the modules that a page holds."""

import json
from collections import Counter

import nbformat
import pytest
from shardlab.own.packing import MIME
from typer.testing import CliRunner

from autograder.cli import app
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
    with pytest.raises(ValueError, match=r"ask for fewer|at least one"):
        reviews.pairs(list("abcde")[:num], each, 1)


def test_the_table_holds_one_line_per_review(tmp_path):
    reviews.write([("bob", "ada"), ("ada", "=1+1")], tmp_path / "new" / "reviews.csv")
    assert (tmp_path / "new" / "reviews.csv").read_text().splitlines() == [
        "reviewer,reads the project of",
        "ada,'=1+1",
        "bob,ada",
    ]


def page_with(tmp_path, modules):
    cell = nbformat.v4.new_code_cell("pack()")
    if modules is not None:
        cell.outputs = [nbformat.v4.new_output("display_data", {MIME: json.dumps(modules)})]
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


def test_the_modules_of_a_page_are_written(tmp_path):
    source = "import torch\n\n\ndef flatten_and_pad(tensors, num_ranks):\n    raise SystemExit(3)\n"
    page = page_with(tmp_path, {"zero": source})
    done = CliRunner().invoke(app, ["unpack-mine", str(page), str(tmp_path / "there")])
    found = {path.name: path.read_text() for path in (tmp_path / "there").rglob("*.py")}
    assert (found, done.exit_code) == ({"zero.py": source}, 0)
    again = CliRunner().invoke(app, ["unpack-mine", str(page), str(tmp_path / "there")])
    assert again.exit_code


@pytest.mark.parametrize("modules", [None, {}, {"../zero": "x = 1"}, {"zero": 3}, ["zero"]])
def test_a_page_without_modules_gets_a_sentence(tmp_path, modules):
    page = page_with(tmp_path, modules)
    done = CliRunner().invoke(app, ["unpack-mine", str(page), str(tmp_path / "there")])
    assert done.exit_code and "holds no modules" in done.output
    assert not (tmp_path / "there").exists()
