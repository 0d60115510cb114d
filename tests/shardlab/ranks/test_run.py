"""`shardlab.run`, and what travels to and from ranks."""

import os
import socket
import threading

import pytest
import shardlab
import torch
import torch.distributed as dist
from notebook_cell import run_cell
from shardlab.ranks.call import OUTPUT_LIMIT, validate

# ---- `shardlab.run`: results by rank, arguments, prints, and the sizes it refuses. -----------------------------------


def total_of(number):
    tensor = torch.tensor([float(number)])
    dist.all_reduce(tensor)
    return dist.get_rank(), dist.get_world_size(), tensor.item()


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_result_from_every_rank_in_order(ranks):
    assert shardlab.run(total_of, 2, ranks=ranks) == [(rank, ranks, 2.0 * ranks) for rank in range(ranks)]


def test_an_argument_that_differs_per_rank():
    assert [got[2] for got in shardlab.run(total_of, shardlab.PerRank([1, 10, 100]), ranks=3)] == [111.0] * 3


def test_results_are_the_objects_themselves():
    def several():
        return torch.arange(3, dtype=torch.bfloat16), {"rank": dist.get_rank()}, None

    for rank, (tensor, numbers, nothing) in enumerate(shardlab.run(several, ranks=2)):
        assert torch.equal(tensor, torch.arange(3, dtype=torch.bfloat16))
        assert (numbers, nothing) == ({"rank": rank}, None)


def test_every_call_starts_clean():
    def leave_traces():
        traces = (os.environ.get("TRACE"), torch.get_default_dtype(), torch.initial_seed())
        os.environ["TRACE"] = "left"
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(7)
        return traces

    assert shardlab.run(leave_traces, ranks=1) == shardlab.run(leave_traces, ranks=1)


def test_ranks_see_the_folder_path_and_environment_of_the_notebook(tmp_path, monkeypatch):
    (tmp_path / "my_helpers.py").write_text("ANSWER = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_SETTING", "on")

    def look_around():
        import my_helpers  # type: ignore[import-not-found]

        return my_helpers.ANSWER, os.getcwd(), os.environ["MY_SETTING"], os.environ["RANK"]

    assert shardlab.run(look_around, ranks=2) == [(42, str(tmp_path), "on", rank) for rank in "01"]


def test_prints_carry_their_rank(capsys):
    def speak():
        print("hello")
        print("no end of line", end="")

    shardlab.run(speak, ranks=2)
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == [f"[rank {r}] {text}" for r in (0, 1) for text in ("hello", "no end of line")]


def test_prints_of_many_bytes_are_cut_and_the_call_goes_on(capsys):
    def shout():
        for _ in range(100):
            os.write(1, b"\xc3\xa9" * (1 << 19))  # 100 MB of one two-byte letter
        return "done"

    assert shardlab.run(shout, ranks=1, timeout=60) == ["done"]
    printed = capsys.readouterr().out
    assert printed.count("é") == OUTPUT_LIMIT // 2
    assert "\ufffd" not in printed
    assert "[rank 0 printed more than 64 KB: the rest is dropped]" in printed


@pytest.mark.parametrize("notebook", [True, False])
def test_a_long_call_shows_that_it_lives(capsys, monkeypatch, notebook):
    """In a program, no progress line may mix with its output, which may be JSON."""
    monkeypatch.setattr("shardlab.ranks.progress.FIRST_SIGN", 0.2)
    monkeypatch.setattr("shardlab.ranks.progress.in_notebook", lambda: notebook)

    def wait():
        import time

        time.sleep(0.5)

    shardlab.run(wait, ranks=1)
    out, err = capsys.readouterr()
    assert "still running after" in (out if notebook else err) and "still running" not in (err if notebook else out)


def test_a_result_larger_than_a_pipe():
    [tensor] = shardlab.run(lambda: torch.arange(4 << 20), ranks=1)
    assert torch.equal(tensor, torch.arange(4 << 20))


def test_calls_of_two_threads_wait_for_each_other():
    answers = {}

    def call(number):
        answers[number] = shardlab.run(total_of, number, ranks=2)[0][2]

    threads = [threading.Thread(target=call, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {1: 2.0, 2: 4.0, 3: 6.0}


@pytest.mark.parametrize("ranks", [0, -1, 2.0, True, "4", None])
def test_ranks_that_are_no_number_of_ranks(ranks):
    with pytest.raises(ValueError, match="give a whole number of ranks from 1 to"):
        shardlab.run(total_of, 1, ranks=ranks)


def test_more_ranks_than_the_machine_holds():
    with pytest.raises(ValueError, match=r"ranks=100000 is more .* allow \d+"):
        shardlab.run(total_of, 1, ranks=100_000)
    with pytest.raises(ValueError, match=r"allow 5$"):
        validate(6, 20.0, available_bytes=400 * 2**20, open_files=1024)
    with pytest.raises(ValueError, match=r"allow 2$"):
        validate(6, 20.0, available_bytes=1 << 40, open_files=30)
    validate(6, 20.0, available_bytes=1 << 40, open_files=-1)  # RLIM_INFINITY


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e9, "20", None, True])
def test_timeouts_that_cannot_be(timeout):
    with pytest.raises(ValueError, match="give the seconds"):
        shardlab.run(total_of, 1, timeout=timeout)


def test_words_that_name_no_launcher_or_transport():
    with pytest.raises(ValueError, match="use 'warm' or 'torchrun'"):
        shardlab.run(total_of, 1, launcher="mpi")
    with pytest.raises(ValueError, match=r"this machine has .*gloo"):
        shardlab.run(total_of, 1, transport="carrier pigeon")
    with pytest.raises(ValueError, match="PerRank has 3 values for 2 ranks"):
        shardlab.run(total_of, shardlab.PerRank([1, 2, 3]), ranks=2)


# ---- A notebook's code is sent to the ranks: functions, their closures, classes, and the lines of the cell. ----------

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
