"""Every schedule on real ranks: gradients and weights after a step equal to one process, on every rank."""

import unittest.mock
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest
import shardlab
import torch
import torch.distributed as dist
from models import after_step, layer, loss, microbatches, one_process
from oracle import named
from shardlab import meter
from shardlab.pipeline_parallel import check, communication, execution, mailbox
from shardlab.pipeline_parallel.builders import BUILDERS, gpipe, one_f_one_b, zb_h1
from shardlab.pipeline_parallel.communication import MessageBatch, communicate
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.emulated import run_emulated
from shardlab.pipeline_parallel.execution import Executor, execute
from shardlab.pipeline_parallel.schedule import num_stages, parse_schedule, parse_slot, stages_of_rank
from shardlab.pipeline_parallel.simulation import simulate
from shardlab.pipeline_parallel.stages import ModuleStage


def module_stages(schedule, rank, num_microbatches):
    batches, last = microbatches(num_microbatches), num_stages(schedule) - 1
    return {
        stage: ModuleStage(
            layer(stage),
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=loss if stage == last else None,
            loss_weight=1 / num_microbatches,
        )
        for stage in stages_of_rank(schedule, rank)
    }


class Got(NamedTuple):
    """One rank's results: gradients and weights by stage, its losses, and call counts."""

    stages: dict
    loss: float
    custom_backwards: int
    hooks_fired: int


def train(schedule, num_microbatches, verify=False):
    """Run one step on this rank."""
    stages = module_stages(schedule, dist.get_rank(), num_microbatches)
    fired = []
    for parameter in (parameter for stage in stages.values() for parameter in stage.parameters()):
        parameter.register_post_accumulate_grad_hook(fired.append)
    execute(schedule, stages, group=None, executor=Executor(verify))
    loss_here = sum(float(value) for stage in stages.values() for value in stage.losses.values())
    got = {number: after_step(stage.module) for number, stage in stages.items()}
    custom = sum(len(part.calls) for stage in stages.values() for part in stage.module if hasattr(part, "calls"))
    return Got(got, loss_here, custom, len(fired))


def train_all(cases, verify):
    return [train(schedule, num_microbatches, verify) for _, schedule, num_microbatches in cases]


def cases_of(ranks):
    """(name, schedule, microbatches) for every builder (some with two numbers of microbatches) and recorded orders."""
    cases = [(name, builder(ranks, 2 * ranks), 2 * ranks) for name, builder in BUILDERS.items()]
    if ranks == 4:
        cases += [(name, BUILDERS[name](4, 5), 5) for name in ("1f1b", "zb-h1", "zbv")]
        for file, other in (("torch", "ZBVZeroBubble"), ("dualpipe", "DualPipe"), ("zero_bubble", "ZB2P")):
            entry = next(e for e in named(file, other) if (e.num_ranks, e.num_microbatches) == (4, 8))
            cases.append((other, [[parse_slot(text) for text in texts] for texts in entry.texts], 8))
    return cases


@cache
def trained(ranks):
    """Every rank's results in each case. The ranks are started only once."""
    by_rank = shardlab.run(train_all, cases_of(ranks), ranks == 2, ranks=ranks, timeout=60)
    return list(zip(cases_of(ranks), zip(*by_rank, strict=True), strict=True))


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_and_weights_equal_one_process(ranks):
    for (name, schedule, num_microbatches), results in trained(ranks):
        twin, loss_of_twin = one_process(num_stages(schedule), num_microbatches)
        assert sum(got.loss for got in results) == pytest.approx(loss_of_twin)
        for rank, got in enumerate(results):
            assert sorted(got.stages) == stages_of_rank(schedule, rank)
            for stage, (gradients, weights) in got.stages.items():
                for mine, theirs in zip([*gradients, *weights], [*twin[stage][0], *twin[stage][1]], strict=True):
                    torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12, msg=f"{name}, stage {stage}")
                if name in ("gpipe", "1f1b", "interleaved"):  # B in the twin's order, so sums are bitwise equal
                    assert all(torch.equal(a, b) for a, b in zip(gradients, twin[stage][0], strict=True)), name


@pytest.mark.parametrize("ranks", [2, 4])
def test_custom_functions_run_once_and_hooks_fire(ranks):
    for (name, _, num_microbatches), results in trained(ranks):
        through = num_microbatches // 2 if name.lower() == "dualpipe" else num_microbatches
        for got in results:
            assert got.custom_backwards == through * sum(stage % 4 == 2 for stage in got.stages), name
            assert got.hooks_fired == through * sum(len(gradients) for gradients, _ in got.stages.values()), name


def test_dualpipes_two_copies_stay_equal_to_the_bit():
    results = next(results for (name, *_), results in trained(4) if name == "dualpipe")
    for stage in range(4):
        ours, theirs = (results[rank].stages[stage] for rank in (stage, 3 - stage))
        for mine, other in zip([*ours[0], *ours[1]], [*theirs[0], *theirs[1]], strict=True):
            assert torch.equal(mine, other)


def in_a_subgroup():
    group = dist.new_group([1, 3])
    if dist.get_rank() not in (1, 3):
        return None
    schedule = zb_h1(2, 3)
    stages = module_stages(schedule, dist.get_rank(group), 3)
    with meter.record() as bill:
        execute(schedule, stages, group=group)
    sent = sum(event.sent_bytes for event in bill.events if event.kind == "send")
    collectives = [event.kind for event in bill.events if event.kind not in ("send", "recv")]
    return {stage: after_step(s.module)[0] for stage, s in stages.items()}, bill.num_messages, sent, collectives


def test_only_the_group_that_was_passed_is_used_and_messages_are_billed():
    by_rank = shardlab.run(in_a_subgroup, ranks=4)
    twin, _ = one_process(2, 3)
    for rank, stage in ((1, 0), (3, 1)):
        gradients, num_messages, sent_bytes, collectives = by_rank[rank]
        for mine, theirs in zip(gradients[stage], twin[stage][0], strict=True):
            torch.testing.assert_close(mine, theirs)
        assert (num_messages, sent_bytes) == (3, 3 * microbatches(1)[0].nbytes)
        assert collectives == ["all_reduce"]  # to share what each stage expects


def two_replicas_of_two_stages():
    """Ranks 0, 1 and 2, 3 are pipelines. A hook on each weight averages it over replicas after its last W."""
    rank, count = dist.get_rank(), 4
    pipeline = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    replicas = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    stages = module_stages(zb_h1(2, count), rank % 2, count)
    if rank > 1 and 0 in stages:
        stages[0].inputs = [-batch for batch in stages[0].inputs]
    passes = Counter()

    def average(parameter):
        passes[parameter] += 1
        if passes[parameter] == count:
            dist.all_reduce(parameter.grad, group=replicas)
            parameter.grad /= 2

    for parameter in (parameter for stage in stages.values() for parameter in stage.parameters()):
        parameter.register_post_accumulate_grad_hook(average)
    execute(zb_h1(2, count), stages, group=pipeline)
    return {number: after_step(stage.module)[0] for number, stage in stages.items()}


def test_data_parallel_hooks_compose_with_a_split_backward():
    by_rank = shardlab.run(two_replicas_of_two_stages, ranks=4)
    plain, _ = one_process(2, 4)
    mirrored, _ = one_process(2, 4, sign=-1)
    for rank in range(4):
        for mine, one, other in zip(by_rank[rank][rank % 2], plain[rank % 2][0], mirrored[rank % 2][0], strict=True):
            torch.testing.assert_close(mine, (one + other) / 2, rtol=1e-11, atol=1e-12)


def checks_of_steps(schedules):
    """How often schedules are checked and simulated if a step is run with each of them."""
    execution._CHECKED.clear()
    patched = unittest.mock.patch.object
    with (
        patched(execution, "check_whole", side_effect=check.check_whole) as checks,
        patched(check, "simulate", side_effect=check.simulate) as simulates,
        patched(communication, "simulate", side_effect=communication.simulate) as weaves,
    ):
        for schedule in schedules:
            execute(schedule, module_stages(schedule, dist.get_rank(), 3), group=None)
    return checks.call_count, simulates.call_count + weaves.call_count


def test_a_schedule_is_checked_and_simulated_again_only_if_changed():
    one, other = gpipe(2, 3), one_f_one_b(2, 3)
    same = [list(slots) for slots in one]
    changed = [[*slots[:3], *slots[:2:-1]] for slots in one]  # backwards in another order
    assert shardlab.run(checks_of_steps, [one, one, same, other, one, changed], ranks=2) == [(3, 3), (3, 3)]


def with_two_messages_swapped(verify):
    schedule = gpipe(2, 3)
    program = communicate(schedule)
    batches = [place for place, step in enumerate(program[1]) if isinstance(step, MessageBatch)]
    program[1].insert(0, program[1].pop(batches[1]))  # the second message is received as the first
    stages = module_stages(schedule, dist.get_rank(), 3)
    Executor(verify).run(program, stages, 2, group=None)


def test_a_swapped_message_is_named_in_debug_mode():
    with pytest.raises(shardlab.RanksFailed, match=r"waits for 0F. but got 0F."):
        shardlab.run(with_two_messages_swapped, True, ranks=2)


def tensors_kept(num_microbatches):
    """The most messages that a rank keeps at a time, in a schedule on two ranks."""
    most = 0

    class Counting(mailbox.Mailbox):
        def post(self, batch):
            nonlocal most
            super().post(batch)
            most = max(most, len(self._leaving))

    schedule = one_f_one_b(2, num_microbatches)
    with unittest.mock.patch.object(execution, "Mailbox", Counting):
        execute(schedule, module_stages(schedule, dist.get_rank(), num_microbatches), group=None)
    return most


def test_a_rank_may_use_a_neighbors_results_in_another_order():
    """Rank 1 computes 1B1 before 1B0 and rank 0 uses them in the opposite order: messages match only by order."""
    orders = parse_schedule([["0F0", "0F1", "0B0", "0B1"], ["1F0", "1F1", "1B1", "1B0"]])
    twin, _ = one_process(2, 2)
    for verify in (False, True):
        by_rank = shardlab.run(train, orders, 2, verify, ranks=2)
        for stage, got in enumerate(by_rank):
            for mine, theirs in zip(got.stages[stage][0], twin[stage][0], strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


def test_what_was_sent_is_let_go_when_it_has_been_answered():
    assert shardlab.run(tensors_kept, 4, ranks=2) == shardlab.run(tensors_kept, 12, ranks=2)


def test_what_cannot_run_is_refused_before_any_message():
    def wrong_size():
        execute(gpipe(3, 2), {}, group=None)

    def no_stages():
        execute(gpipe(2, 2), {}, group=None)

    def circle():
        schedule = one_f_one_b(2, 2)
        schedule[0].reverse()
        execute(schedule, {}, group=None)

    for function, words in (
        (wrong_size, "build it for 2"),
        (no_stages, "was not given them"),
        (circle, "no rank can continue"),
    ):
        with pytest.raises(shardlab.RanksFailed, match=words):
            shardlab.run(function, ranks=2)


@pytest.mark.parametrize("name", ["zb-h1", "dualpipe"])
def test_emulated_stages_show_the_bubble(name):
    schedule = BUILDERS[name](4, 8)
    predicted = simulate(schedule)
    for _ in range(4):  # a busy machine wakes late, so take the best of a few; benchmarks/pipelines.py requires 2%
        timeline = run_emulated(schedule, seconds_per_unit=0.01)
        if timeline.makespan < 1.3 * predicted.makespan:
            break
    assert 0.98 * predicted.makespan < timeline.makespan < 1.5 * predicted.makespan
    assert min(timeline.idle) > 0.8 * min(predicted.idle)


def test_one_rank_needs_nobody():
    timeline = run_emulated(one_f_one_b(1, 3), Durations(forward=[2.0]), seconds_per_unit=0.005)
    assert 11.8 < timeline.makespan < 36
