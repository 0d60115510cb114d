"""Checks measure gradients, weights after a step, bytes held and peak memory: wrong steps fail, right ones pass."""

import re
from dataclasses import replace

import pytest
import torch
from sample_checks import DATA_PARALLEL, DATA_PARALLEL_ANSWERS, ZERO_1, ZERO_1_ANSWERS

from autograder.checks.training import (
    holds_too_much,
    leaf,
    module,
    module_with,
    optimizer,
    peak_too_high,
    training_task,
    wrong_grads,
    wrong_leaf_grads,
    wrong_weights,
)
from autograder.jobs import peaks, trained
from autograder.matrices.kill_matrix import PREAMBLE


def judged(judge, check, source):
    return judge.judge(check, {"preamble": PREAMBLE, "cells": [[check.exercise, source, True]]}, 7)


@pytest.mark.parametrize("name", DATA_PARALLEL_ANSWERS)
def test_a_data_parallel_step(judge, name):
    verdict = judged(judge, DATA_PARALLEL, DATA_PARALLEL_ANSWERS[name])
    assert verdict.is_right == name.startswith("right_"), verdict.text
    assert "cannot read what a rank returned" not in verdict.text


@pytest.mark.isolated
@pytest.mark.parametrize("name", ZERO_1_ANSWERS)
def test_a_zero_1_step(judge, name):
    verdict = judged(judge, ZERO_1, ZERO_1_ANSWERS[name])
    assert verdict.is_right == name.startswith("right_"), verdict.text
    assert "cannot read what a rank returned" not in verdict.text


def asked(judge, source, *args, reports=("weights", "grads")):
    """Return what one rank reports about `step(*args, group)`."""
    task = training_task({"ranks": 1, "numbers": 1}, "step", {0: list(args)}, {}, reports=reports)
    check = replace(DATA_PARALLEL, names=("step",))
    return judge.ask(check.job(task, {"preamble": PREAMBLE, "cells": [["sample.step", source, True]]}))


def test_a_leaf_a_tied_weight_and_given_weights_are_reported(judge):
    source = """
def step(net, model, x, *, group):
    (net(x).sum() + model(torch.tensor([[0, 1]])).sum()).backward()
"""
    weight = torch.tensor([[1.0, -2.0]])
    net = module_with("mlp", {"0.weight": weight}, widths=[2, 1], bias=False)
    model = module("language-model", seed=1, vocabulary=5, width=4, num_blocks=1)
    answer = asked(judge, source, net, model, leaf(torch.tensor([[3.0, 4.0]])))
    came = answer.ranks[0]
    assert answer.report is None and came["args"] == [None, None, None]
    assert wrong_weights(0, came, {"0.weight": weight}) is None
    assert wrong_grads(0, came, {"0.weight": torch.tensor([[3.0, 4.0]])}) is None
    assert wrong_leaf_grads(0, came, [weight]) is None
    assert "wrong" in str(wrong_leaf_grads(0, came, [weight + 1]))
    assert list(came["trained"]["weights"][1]).count("head.weight") == 0  # it is the embedding
    sizes = [p.numel() for p in trained.build_module(model).parameters()]
    assert came["trained"]["held_bytes"]["parameters"] == 4 * (sum(sizes) + 2)


def test_a_returned_optimizer_counts_and_a_missing_gradient_is_named(judge):
    source = "def step(net, *, group):\n    net(torch.ones(1, 2)).sum().backward()\n"
    source += "    opt = torch.optim.Adam(net.parameters())\n    opt.step()\n    opt.zero_grad()\n    return 3, opt\n"
    came = asked(judge, source, module("mlp", seed=1, widths=[2, 1])).ranks[0]
    assert came["value"] == {"plain": (3, None)}
    assert came["trained"]["held_bytes"]["optimizer_state"] >= 2 * 4 * 3
    assert "no gradient of 0.weight" in str(wrong_grads(0, came, {"0.weight": torch.ones(1, 2)}))
    assert holds_too_much(0, came, {"optimizer_state": 8}, "little") is not None
    assert holds_too_much(0, {}, {"optimizer_state": 8}, "little") is not None


@pytest.mark.isolated
@pytest.mark.parametrize(
    ("source", "least", "most"),
    [
        ("def step(*, group):\n    pass", 0, 4e6),
        ("def step(*, group):\n    torch.zeros(10_000_000).add_(1)", 40e6, 46e6),
        ("kept = torch.zeros(10_000_000).add_(1)\ndef step(*, group):\n    pass", 40e6, 46e6),  # before the call
        (
            "import threading\n\ndef step(*, group):\n    thread = threading.Thread(target=lambda: "
            "torch.zeros(10_000_000).add_(1))\n    thread.start()\n    thread.join()",
            40e6,
            46e6,
        ),
        ("def step(*, group):\n    for _ in range(20):\n        torch.zeros(2_500_000).add_(1)", 10e6, 16e6),
        ("def step(*, group):\n    kept = [torch.zeros(99_999) for _ in range(50)]\n    return kept", 20e6, 26e6),
        ("def step(*, group):\n    return torch.zeros(10_000_000)", 40e6, 46e6),  # reporting it takes no more
    ],
)
def test_the_peak_is_what_the_answer_takes_wherever_it_takes_it(judge, source, least, most):
    answer = asked(judge, source, reports=())
    assert answer.report is None
    (peak,) = answer.peak_bytes
    assert 0.98 * least <= peak <= most  # Linux merges per-core page counts only occasionally


OUT_OF_THE_COUNT = {
    "a process": "os.fork()",
    "a program": 'os.execv("/bin/true", ["true"])',
    "a child program": 'subprocess.run(["/bin/true"])',
    "shared pages": "mmap.mmap(-1, 4096)",
    "a file": 'open("/tmp/kept", "w")',
    "a file without a folder": 'os.memfd_create("kept")',
    "many pipes": "[os.pipe() for _ in range(100)]",
    "a reset of the peak": 'open("/proc/self/clear_refs", "w").write("5")',
}


@pytest.mark.isolated
@pytest.mark.parametrize("name", OUT_OF_THE_COUNT)
def test_no_memory_leaves_the_count(judge, name):
    source = f"import mmap, subprocess\n\ndef step(*, group):\n    {OUT_OF_THE_COUNT[name]}"
    raised = asked(judge, source, reports=()).ranks[0]["raised"]
    assert re.search("PermissionError|OSError", raised.splitlines()[-1]), raised


@pytest.mark.isolated
def test_a_rank_whose_first_thread_has_ended_has_no_peak(judge):
    source = """
import ctypes, gc, threading
from autograder.jobs import plain
from shardlab.ranks import inside

def step(*, group):
    seat = next(one for one in gc.get_objects() if isinstance(one, inside.RankContext))

    def hand_in():
        time.sleep(0.2)
        inside.send(seat.result, [inside.RESULT, *plain.parts({"value": {"plain": 1}})])
        time.sleep(60)

    threading.Thread(target=hand_in).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""
    answer = asked(judge, source, reports=())
    assert answer.ranks == [{"value": {"plain": 1}}] and answer.report is None
    assert answer.peak_bytes == [None]


MARKS = [(0, 5, 5), (7, 5, 7), (None, 5, None), (5, None, None), (1 << 30, 1, None)]


@pytest.mark.parametrize(("before", "now", "mark"), MARKS)
def test_a_mark_that_is_missing_or_falls_is_none(before, now, mark):
    assert peaks._higher(before, now) == mark


@pytest.mark.isolated
def test_who_leaves_before_its_memory_was_read_is_told(judge):
    answer = asked(judge, "def step(*, group):\n    os._exit(0)", reports=())
    assert peak_too_high(replace(answer, peak_bytes=[None]), 0, 1e9, "nothing") is not None
    assert peak_too_high(replace(answer, loopback_bytes=-1), 0, 0, "no sandbox") is None


def test_what_there_is_not_is_refused_by_name():
    with pytest.raises(ValueError, match="mlp"):
        module("resnet", seed=1)
    with pytest.raises(ValueError, match="AdamW"):
        optimizer("Lion", of=0)


def test_a_result_of_many_tensors_comes_whole(judge):
    source = "def step(*, group):\n    return [torch.full((2,), float(n)) for n in range(3000)]"
    value = asked(judge, source, reports=()).ranks[0]["value"]["plain"]
    assert torch.equal(torch.stack(value), torch.arange(3000.0).repeat_interleave(2).reshape(3000, 2))
