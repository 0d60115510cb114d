"""The quizzes: the formulas of the pages give what the grader computes, for any seed."""

import math
import string

import pytest
from shardlab.study import quiz

from autograder.authoring import notebooks
from autograder.weeks.quiz1 import numbers as first
from autograder.weeks.quiz2 import numbers as second

ANSWERS = {1: first.ANSWERS, 2: second.ANSWERS}


def answers_of_the_page(number, seed):
    cells = {cell.id: cell.source for cell in notebooks.read_source(f"quiz{number}").cells}
    space = {"quiz": quiz}
    exec(cells[f"quiz{number}-numbers"].replace("seed = 1234", f"seed = {seed}"), space)
    return space["quiz_answers"]


@pytest.mark.parametrize("number", quiz.QUIZZES)
def test_the_formulas_of_the_page_give_what_costs_computes(number):
    for seed in range(100):
        asked = quiz.numbers(number, seed)
        for place, value in enumerate(answers_of_the_page(number, seed), 1):
            expected = ANSWERS[number][place](**asked[place])
            assert math.isclose(value, expected, rel_tol=1e-9), (seed, place, asked[place])


@pytest.mark.parametrize("number", quiz.QUIZZES)
def test_every_question_shows_the_numbers_it_draws(number, capsys):
    for question in quiz.QUIZZES[number]:
        assert {name for _, name, _, _ in string.Formatter().parse(question.text) if name} == set(question.choices)
    quiz.ask(number, 7)
    assert len(capsys.readouterr().out.splitlines()) == len(ANSWERS[number]) == 10


def test_a_seed_draws_the_same_numbers_and_another_seed_others():
    assert quiz.numbers(1, 5) == quiz.numbers(1, 5) != quiz.numbers(1, 6)


SEEDS = range(2000)


def test_quiz_1_draws_no_trivial_or_unrealistic_question():
    for seed in SEEDS:
        asked = quiz.numbers(1, seed)
        seconds = ANSWERS[1][3]
        assert seconds(**asked[3] | {"us": 0}) < 0.985 * seconds(**asked[3]), "forgetting the messages would pass"
        assert all(ANSWERS[1][place](**asked[place]) < 80 for place in (5, 6)), "more than a GPU holds"
        assert asked[4]["hidden"] <= min(asked[4]["compute"], asked[4]["communicate"])
        assert asked[8]["parameters"] % asked[8]["n"], "a shard without padding"
        assert asked[10]["h"] % asked[10]["a"] == asked[10]["a"] % asked[10]["t"] == 0, "heads that cannot be split"


def test_quiz_2_draws_no_trivial_or_unrealistic_question():
    for seed in SEEDS:
        asked = quiz.numbers(2, seed)
        assert asked[1]["m"] >= asked[1]["p"] and asked[2]["m"] % asked[2]["p"] == 0
        assert asked[4]["i"] < asked[4]["p"]
        mesh = asked[5]
        assert mesh["tp"] <= mesh["rank"] < mesh["dp"] * mesh["pp"] * mesh["tp"]
        assert 15 < ANSWERS[2][6](**asked[6]) < 60, "an MFU that nobody measures"
        assert asked[8]["k"] < asked[8]["experts"], "every expert gets every token"
        assert ANSWERS[2][10](**asked[10]) < 80, "more than a GPU holds"


def test_counts_are_ints_which_the_check_compares_exactly():
    counts = {number: [] for number in quiz.QUIZZES}
    for number, answers in ANSWERS.items():
        asked = quiz.numbers(number, 1)
        counts[number] += [place for place in answers if type(answers[place](**asked[place])) is int]
        page = notebooks.read_source(f"quiz{number}").cells[0].source
        *most, last = map(str, counts[number])
        assert f"Questions {', '.join(most)} and {last} need the exact whole number." in " ".join(page.split())
    assert counts == {1: [2, 8], 2: [3, 4, 5]}
