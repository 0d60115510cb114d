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


def test_every_drawn_question_has_a_sensible_answer():
    for seed in range(300):
        asked = quiz.numbers(2, seed)
        mesh, mfu = asked[5], ANSWERS[2][6](**asked[6])
        assert mesh["rank"] < mesh["dp"] * mesh["pp"] * mesh["tp"] and 0 < mfu < 100
        assert asked[4]["i"] < asked[4]["p"]
