"""A notebook's code is sent to the ranks: functions, their closures, classes, and the lines of the cell."""

import socket
import threading

import pytest
import shardlab
import torch
import torch.distributed as dist
from notebook_cell import run_cell

A_LESSON = """
    import torch
    import torch.distributed as dist
    from dataclasses import dataclass

    SCALE = 3

    @dataclass
    class Answer:
        number: float

        def doubled(self):
            return Answer(2 * self.number)

    def scaled(number):
        return SCALE * number

    def make(offset):
        def on_rank(number):
            return Answer(scaled(number) + offset + dist.get_rank())
        return on_rank
"""


def test_closures_helpers_globals_and_classes_of_a_cell():
    lesson = run_cell(A_LESSON)
    answers = shardlab.run(lesson["make"](100), 2, ranks=2)
    assert answers == [lesson["Answer"](106), lesson["Answer"](107)]
    assert all(isinstance(answer, lesson["Answer"]) for answer in answers)
    assert answers[0].doubled().number == 212


def test_methods_lambdas_and_modules_of_a_cell():
    lesson = run_cell("""
        import torch

        class Model(torch.nn.Linear):
            def run(self, number):
                return self(torch.full((1, 2), number)).shape

        model = Model(2, 3)
        """)
    assert shardlab.run(lesson["model"].run, 1.0, ranks=2) == [(1, 3), (1, 3)]
    weights = shardlab.run(lambda model: model.weight.detach().clone(), lesson["model"], ranks=2)
    assert all(torch.equal(weight, lesson["model"].weight) for weight in weights)


def test_a_traceback_shows_the_lines_of_the_cell():
    lesson = run_cell("""
        def fail(number):
            return 1 / (number - number)  # the line in question
        """)
    with pytest.raises(shardlab.RanksFailed) as failure:
        shardlab.run(lesson["fail"], 1, ranks=1)
    assert "return 1 / (number - number)  # the line in question" in str(failure.value)
    assert "ZeroDivisionError" in str(failure.value)
    assert "shardlab/ranks" not in str(failure.value)


def test_the_source_of_a_cell_can_be_read_on_a_rank():
    lesson = run_cell("""
        import inspect

        def show():
            return inspect.getsource(show)
        """)
    assert shardlab.run(lesson["show"], ranks=1) == ["def show():\n    return inspect.getsource(show)\n"]


@pytest.mark.parametrize("make", [threading.Lock, socket.socket, lambda: (n for n in range(3))])
def test_what_cannot_travel_is_named(make):
    thing = make()

    def use_it():
        return thing

    with pytest.raises(TypeError, match=r"use_it\(\) or one of its arguments cannot be sent .* inside the function"):
        shardlab.run(use_it, ranks=2)
    with pytest.raises(TypeError, match="cannot be sent"):
        shardlab.run(print, thing, ranks=2)


def test_a_function_travels_that_says_config_beside_dist():
    """torch.distributed.config is a module with its own class, and such a function is sent together with it."""

    def width_of_the_model():
        import shardlab.model

        dist.get_rank()
        return shardlab.model.GPT(shardlab.model.GPTConfig(layers=1, hidden=32)).config.hidden

    assert shardlab.run(width_of_the_model, ranks=2) == [32, 32]


def test_a_result_that_cannot_travel_back_is_named():
    def a_generator():
        return (number for number in range(3))

    with pytest.raises(shardlab.RanksFailed, match=r"the return value of a_generator\(\) cannot be sent back"):
        shardlab.run(a_generator, ranks=1)
