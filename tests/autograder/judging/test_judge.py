"""The judge: points and sentences, what is masked, and the messages it exchanges with a sandbox."""

from dataclasses import replace

import pytest
import torch
from shardlab.ranks.warm import WorkerLost

from autograder import weeks
from autograder.judging.judge import Judge, seed_for
from autograder.matrices import kill_matrix, known
from autograder.sandboxes.zygote import SandboxLost
from autograder.weeks.week05_tensor_parallel._masks import related

# ---- The judge gives points for the work of every rank, and a sentence for every failure. ----------------------------


def judged(judge, exercise, source, seed=1, others=()):
    cells = [*([name, text, False] for name, text in others), [exercise, source, True]]
    return judge.judge(weeks.find(exercise), {"preamble": kill_matrix.PREAMBLE, "cells": cells}, seed)


def source_of(exercise, name):
    return known.find(exercise, name).source


@pytest.mark.parametrize(
    ("exercise", "name", "words"),
    [
        ("week01.exchange", "both_send_first", "Deadlock: 2 of 2 ranks wait"),
        ("week01.exchange", "both_receive_first", "line 10 of your cell, in exchange()"),
        ("week01.ring-reduce-scatter", "calls_reduce_scatter", "calls reduce_scatter"),
        ("week01.ring-reduce-scatter", "sends_whole_tensors", "it must send"),
        ("week01.ring-all-reduce", "two_ranks_only", "With 3 ranks"),
        ("week01.hierarchical-all-reduce", "flat_ring", "to other nodes"),
        ("week01.all-reduce-seconds", "no_latency", "does not take"),
    ],
)
def test_a_wrong_answer_gets_no_points_and_the_reason(judge, exercise, name, words):
    verdict = judged(judge, exercise, source_of(exercise, name))
    assert verdict.points < verdict.max
    assert words in verdict.text
    assert "autograder/" not in verdict.text


def test_one_half_right_earns_its_share(judge):
    verdict = judged(judge, "week01.ring-all-reduce", source_of("week01.ring-all-reduce", "mean_for_sum"))
    assert verdict.points == pytest.approx(1)
    assert "Right: all-gather" in verdict.text


def test_an_unwritten_answer_is_told_apart_from_a_wrong_one(judge):
    verdict = judged(judge, "week01.exchange", "def exchange(tensor, *, group):\n    raise NotImplementedError()\n")
    assert "Not answered yet" in verdict.text


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def exchange(:", "not Python in line 1"),
        ("x = 1", "exchange() is not defined"),
        ("1 / 0", "ZeroDivisionError"),
        ("import os\ndef exchange(tensor, *, group):\n    os._exit(0)", "left with exit code 0"),
        ("def exchange(tensor, *, group):\n    while True: pass", "still computing"),
        ("def exchange(tensor, *, group):\n    return [tensor.clone()]", "not a tensor"),
        ("def exchange(tensor, *, group):\n    return object()", "object"),
    ],
)
def test_broken_cells_get_a_sentence(judge, source, words):
    verdict = judged(judge, "week01.exchange", source)
    assert verdict.points == 0
    assert words in verdict.text


def test_other_cells_help_but_cannot_harm(judge):
    helper = "def my_ring(chunks, *, group):\n    return 1\nprint('x')\nwhile True: pass\n"
    broken = "this is not Python"
    source = source_of("week01.ring-reduce-scatter", "right_batch")
    others = [("week01.exchange", helper), ("week01.naive-bill", broken)]
    assert judged(judge, "week01.ring-reduce-scatter", source, others=others).is_right


def test_the_same_seed_draws_the_same_inputs(judge):
    source = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return num_ranks, num_bytes"
    texts = [judged(judge, "week01.naive-bill", source, seed).text for seed in (5, 5)]
    assert texts[0] == texts[1]
    check = weeks.find("week01.naive-bill")
    from random import Random

    assert check.draw(Random(seed_for(5, "a"))) != check.draw(Random(seed_for(5, "b")))


def test_a_lost_sandbox_is_a_fault_and_not_a_wrong_answer(monkeypatch):
    with Judge() as one:
        monkeypatch.setattr(one, "_ask", lambda request: (_ for _ in ()).throw(SandboxLost("the machine is full")))
        verdict = judged(one, "week01.naive-bill", "def naive_all_reduce_bill(n, s): return 1, 1")
    assert verdict.fault and "the machine is full" in verdict.text


def test_ranks_that_the_judge_itself_loses_are_no_wrong_answer(judge):
    def lost(*_):
        raise WorkerLost("the worker does not answer")

    check = replace(weeks.find("week01.naive-bill"), judge=lost)
    source = "def naive_all_reduce_bill(num_ranks, num_bytes):\n    return num_ranks, num_bytes"
    verdict = judge.judge(check, {"preamble": "", "cells": [["week01.naive-bill", source, True]]}, 1)
    assert verdict.fault and "the worker does not answer" in verdict.text


LATE_ONCE = """
def exchange(tensor, *, group):
    {wait}
    rank, peer = dist.get_rank(group), dist.get_rank(group) ^ 1
    theirs = torch.empty_like(tensor)
    for work in dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, tensor, group=group, group_peer=peer),
            dist.P2POp(dist.irecv, theirs, group=group, group_peer=peer),
        ]
    ):
        work.wait()
    return theirs
"""


def test_an_answer_that_was_late_gets_a_second_run_and_no_third(judge, monkeypatch):
    check = replace(weeks.find("week01.exchange"), timeout=1.0)
    runs, ask = [], judge._ask

    def counted(job):
        cells = [["week01.exchange", LATE_ONCE.format(wait="pass" if len(runs) else "while True: pass"), True]]
        runs.append(ask(replace(job, answer={"preamble": kill_matrix.PREAMBLE, "cells": cells})))
        return runs[-1]

    monkeypatch.setattr(judge, "_ask", counted)
    case = [{"ranks": 2, "numbers": 4}]
    assert judge.judge(check, {}, 1, case).is_right
    assert [one.timed_out for one in runs] == [True, False]

    always = {
        "preamble": kill_matrix.PREAMBLE,
        "cells": [["week01.exchange", LATE_ONCE.format(wait="while True: pass"), True]],
    }
    monkeypatch.setattr(judge, "_ask", lambda job: runs.append(ask(job)) or runs[-1])
    assert judge.judge(check, always, 1, case).points == 0
    assert len(runs) == 4


def test_a_check_that_fails_itself_gives_no_points_and_marks_the_verdict(judge):
    def fails(case, task, answer):
        return answer.ranks[9]

    check = replace(weeks.find("week01.exchange"), judge=fails)
    answer = {
        "preamble": kill_matrix.PREAMBLE,
        "cells": [["week01.exchange", source_of("week01.exchange", "both_send_first"), True]],
    }
    verdict = judge.judge(check, answer, 1)
    assert verdict.points == 0 and verdict.look and not verdict.fault
    assert "cannot read what a rank returned (IndexError)" in verdict.text


# ---- Masks of the same stream are detected at other positions; masks of separate streams never are. ------------------

STEPS, ROWS, COLUMNS = 128, 16, 12
SEEDS = range(15)
MOVED = {
    "rolled": lambda draw, seed: draw.roll((seed % 5, seed % 7 + 1), (1, 2)),
    "mirrored": lambda draw, _: draw.flip(1, 2),
    "one step later": lambda draw, _: draw.roll(1, 0),
    "two steps earlier": lambda draw, _: draw.roll(-2, 0),
    "exchanged": lambda draw, seed: 1 - draw.roll(seed % 9, 1),
    "transposed": lambda draw, _: draw.mT,
    "shifted in each step": lambda draw, seed: torch.stack([one.roll(step % 6, 0) for step, one in enumerate(draw)]),
    "other places, the same in each step": lambda draw, seed: draw.flatten(1)[:, order(seed)].view_as(draw),
    "other places in each step": lambda draw, seed: torch.stack(
        [one.flatten()[order(seed + step)].view_as(one) for step, one in enumerate(draw)]
    ),
}


def order(seed):
    return torch.randperm(ROWS * COLUMNS, generator=torch.Generator().manual_seed(seed))


def drawn(seed):
    return torch.rand(STEPS, ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("how", MOVED)
def test_the_same_numbers_at_other_places_are_found(how):
    """Five seeds each: 45 cases."""
    for seed in SEEDS[:5]:
        draw = drawn(seed)
        own = MOVED[how](draw, seed)
        assert related({"own": own >= 0.5, "shared": draw >= 0.5}) == ("own", "shared"), (how, seed)


def test_streams_of_their_own_are_left_alone():
    for seed in SEEDS:
        masks = {place: drawn(1000 * seed + number) >= 0.5 for number, place in enumerate("abc")}
        assert related(masks) is None, seed


def test_numbers_that_come_back_in_a_later_step_are_found():
    draw = drawn(1)
    draw[3::2] = draw[2:-1:2].flip(1)
    assert related({"own": draw >= 0.5}) == ("own", "own")
