"""Checks that train, and checks of schedules."""

import re
from dataclasses import replace
from random import Random

import pytest
import torch
from shardlab.pipeline_parallel.builders import dualpipe, gpipe, interleaved, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.schedule import Schedule, parse_schedule

from autograder.checks import schedules
from autograder.checks.base import Reply
from autograder.checks.schedules import WrongSchedule, drawn_sizes, schedule_in
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
from tests.autograder.sample_checks import DATA_PARALLEL, DATA_PARALLEL_ANSWERS, ZERO_1, ZERO_1_ANSWERS

# ---- Checks measure gradients, weights after a step, bytes held and peak memory: wrong steps fail, right ones pass. --


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


# ---- Schedules from students are read safely, refused with a sentence, and compared with a reference. ----------------

SIZES = {"num_ranks": 4, "num_microbatches": 8}


def texts(schedule: Schedule) -> list[list[str]]:
    return [[str(slot) for slot in slots] for slots in schedule]


def answer(value) -> Reply:
    return Reply([{"answers": [{"value": {"plain": value}}]}], None, 0, "")


def refusal(value, **sizes) -> str:
    with pytest.raises(WrongSchedule) as refused:
        schedule_in(answer(value), **{**SIZES, **sizes})
    return str(refused.value)


@pytest.mark.parametrize("build", [gpipe, one_f_one_b, zb_h1])
def test_texts_become_the_schedule_that_they_spell(build):
    assert schedule_in(answer(texts(build(4, 8))), **SIZES) == build(4, 8)
    assert parse_schedule(texts(build(4, 8))) == build(4, 8)


def test_more_stages_than_ranks_and_two_copies_of_a_stage():
    assert schedule_in(answer(texts(interleaved(4, 8, 2))), **SIZES, stages=8) == interleaved(4, 8, 2)
    sizes = {"num_ranks": 4, "num_microbatches": 10}
    assert schedule_in(answer(texts(dualpipe(4, 10))), **sizes, copies=2) == dualpipe(4, 10)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "for each of the 4 ranks"),
        ([["0F0"]], "for each of the 4 ranks"),
        (["0F0", "1F0", "2F0", "3F0"], "The entry of rank 0 must be a list"),
        ([["0F0"], [1], [], []], "Rank 1, slot 0 is not a short string"),
        ([["0F0"] * 10**6, [], [], []], "Rank 0 has 1000000 slots; all ranks together need at most 96"),
        ([["9" * 50 + "F0"], [], [], []], "Rank 0, slot 0 is not a short string"),
        ([["9" * 30 + "F0"], [], [], []], "names stage " + "9" * 30),
        ([["0F8"], [], [], []], "0F8 names microbatch 8, but microbatches are numbered 0 to 7"),
        ([["F0"], [], [], []], "rank 0, slot 0: 'F0' is not a slot"),
        ([["0F0"], [], [], []], "have no slots"),
        ([[], [], [], []], "have no slots"),
    ],
)
def test_what_is_no_schedule_is_refused_with_a_sentence(value, words):
    assert words in refusal(value)


def test_what_cannot_run_is_named_by_rank_slot_and_missing_input():
    backward_first = texts(one_f_one_b(4, 8))
    backward_first[3][0], backward_first[3][1] = backward_first[3][1], backward_first[3][0]
    assert "rank 3, slot 0 (3B0) waits for 3F0" in refusal(backward_first)
    short = texts(gpipe(4, 8))
    short[2].remove("2B5")
    assert "microbatch 5 has no backward in stage 2" in refusal(short)


def spoilt(whole: list[list[str]]):
    """Yield invalid schedules: one slot missing, one slot duplicated, or two neighboring slots swapped."""
    for rank, slots in enumerate(whole):
        for place in range(len(slots)):
            ways = (
                slots[:place] + slots[place + 1 :],
                [*slots, slots[place]],
                slots[:place] + slots[place : place + 2][::-1] + slots[place + 2 :],
            )
            yield from ([way if other == rank else whole[other] for other in range(len(whole))] for way in ways)


@pytest.mark.parametrize(("build", "strange"), [(gpipe, r"\d[IW]\d"), (one_f_one_b, r"\d[IW]\d"), (zb_h1, r"\d[B]\d")])
def test_a_sentence_uses_the_letters_of_the_schedule(build, strange):
    sentences = []
    for value in spoilt(texts(build(3, 4))):
        try:
            schedule_in(answer(value), num_ranks=3, num_microbatches=4)
        except WrongSchedule as wrong:
            sentences.append(str(wrong))
    assert len(sentences) > 20 and not [one for one in sentences if re.search(strange, one)]


def case_and_task(build, **case):
    case = {**SIZES, **case}
    return case, schedules.schedule_task("f", build)(case, Random(0))


def test_a_slow_order_is_told_where_it_waits_longest():
    case, task = case_and_task(gpipe)
    one_at_a_time = parse_schedule([[f"{r}{k}{m}" for m in range(8) for k in "FB"] for r in range(4)])
    problem = schedules.as_quick()(case, task, one_at_a_time)
    assert problem == (
        "Legal, but the step takes 96, but 33 is possible. The longest wait: rank 0 is idle for 9 before 0B0, "
        "its slot 1."
    )
    assert schedules.as_quick()(case, task, one_f_one_b(4, 8)) is None


def test_memory_and_order_and_homes_are_held_against_the_reference():
    case, task = case_and_task(one_f_one_b)
    assert "rank 0 holds the activations of 8 microbatches at once; 4 are enough" in str(
        schedules.held_as_expected()(case, task, gpipe(4, 8))
    )
    assert "rank 0, slot 4 is 0F4" in str(schedules.same_order(case, task, gpipe(4, 8)))
    assert schedules.same_order(case, task, one_f_one_b(4, 8)) is None
    swapped = one_f_one_b(4, 8)[::-1]
    assert schedules.same_homes(case, task, swapped) == "Rank 0 computes stages [3]; it holds [0]."


def test_drawn_sizes_have_fewer_as_many_and_more_microbatches_than_ranks():
    for seed in range(20):
        sizes = [(size["num_ranks"], size["num_microbatches"]) for size in drawn_sizes(Random(seed))]
        assert {(m > p) - (m < p) for p, m in sizes} == {-1, 0, 1}
        assert all(p <= 8 and m <= 24 for p, m in sizes)
