"""Week 4: the numbers stated on its page, the checks' reference answers, and the facts behind its reading questions."""

import inspect
from random import Random

import pytest
from shardlab import data_parallel
from shardlab.costs import traffic
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel
from torch.distributed.fsdp._fully_shard import _fsdp_param_group

from autograder.weeks.week04_fsdp import ethernet, most_gathered, n_times, offload, plan, reshard
from autograder.weeks.week04_fsdp.reading import READING


def test_zero_3_saves_n_times_of_the_states_and_less_of_all():
    states, together = n_times.CHECK.make(n_times.CHECK.public[0], Random(0)).expected[0]
    assert states == 64
    assert together == pytest.approx(122 / 11.75)


def test_65b_over_10_gbe():
    assert ethernet.CHECK.make(ethernet.CHECK.public[0], Random(0)).expected[0] == pytest.approx((204.75, 307.125))
    assert traffic.zero_bytes(64, 130e9, 3) == pytest.approx(1.5 * traffic.zero_bytes(64, 130e9, 0))


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5])
def test_the_window_holds_the_units_of_prefetch_and_one_more_pass(prefetch):
    played = plan.play(plan.window_plan(6, prefetch), 6)
    assert played.held == min(prefetch + 1, 6)
    assert played.gathers == 12 - (prefetch + 2) // 2


def test_prefetch_exposes_one_gather_where_eleven_were_exposed():
    clock = plan.CLOCKS.index((1.0, 1.0))
    assert [plan.play(plan.window_plan(6, d), 6).exposed[clock] for d in (0, 1, 2)] == [11, 1, 1]


def test_the_timeline_of_the_page_waits_as_long_as_its_plan():
    clock = plan.CLOCKS.index((1.0, 1.0))
    assert [plan.play(plan.window_plan(3, d), 3).exposed[clock] for d in (0, 1)] == [5, 1]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (["forward 0"], "not gathered"),
        (["gather 0", "gather 0"], "already gathered"),
        (["gather 0", "forward 0", "backward 0"], "still gathered"),
        (["gather 0", "backward 0", "forward 0"], "too early"),
        (["gather 1"], "no unit 1"),
        (["fetch 0"], "not an event"),
    ],
)
def test_a_plan_that_cannot_run_is_told_why(events, told):
    with pytest.raises(plan.WrongPlan, match=told):
        plan.play(events, 1)


@pytest.mark.parametrize("seed", range(5))
def test_new_slices_together_are_the_model(seed):
    for case in reshard.CHECK.draw(Random(seed)):
        ranks = [case | {"rank": rank} for rank in range(case["num_ranks"])]
        numbers = [n for one in ranks for n in reshard.CHECK.make(one, Random(0)).expected[0][0]]
        assert sorted(numbers) == list(range(sum(case["unit_sizes"])))


def test_fsdp_gathers_the_next_unit_before_the_gradients_of_this_one():
    default = inspect.signature(FullyShardedDataParallel).parameters["backward_prefetch"].default
    assert default is BackwardPrefetch.BACKWARD_PRE
    held = [most_gathered.most({"unit_sizes": [20] * 5, "prefetch": prefetch}) for prefetch in (0, 1)]
    assert held == [20, 40] and most_gathered.most({"unit_sizes": [100], "prefetch": 0}) == 100


def test_the_offloaded_layers_of_the_page_are_back_after_5_s():
    case = {"num_parameters": [4, 4], "backward_seconds": [1.0, 1.0], "link": 8.0, "adam": 4.0}
    assert offload.offloaded(case) == [16, 112, 32, 5.0]


@pytest.mark.parametrize(("link", "adam"), [(2e9, 1e9), (2e7, 1e9), (2e9, 1e7)])
def test_an_emulated_step_with_offload_takes_the_predicted_time(link, adam):
    case = {"num_parameters": [10**6, 2 * 10**6, 10**6], "backward_seconds": [0.05] * 3, "link": link, "adam": adam}
    measured = data_parallel.offloaded_step(case["num_parameters"], case["backward_seconds"], link=link, adam=adam)
    due = offload.offloaded(case)[-1]
    assert due <= measured <= 1.3 * due + 0.1


def test_ten_billion_parameters_need_20_gb_on_the_gpu():
    case = {"num_parameters": [10**10], "backward_seconds": [1.0], "link": 32e9, "adam": 1e9}
    assert offload.offloaded(case)[:2] == [20e9, 140e9]


def test_the_code_says_what_the_reading_asks_for():
    group = _fsdp_param_group.FSDPParamGroup
    assert f"self.{READING['records']}()" in inspect.getsource(group.post_forward)
    source = inspect.getsource(group.post_backward)
    assert "post_backward_reduce" in source
    reduced = source[source.index("Save the autograd-computed gradients") :]
    assert source.index(READING["order"][0]) < source.index(".reshard()")
    assert reduced.index(".reshard()") < reduced.index("foreach_reduce(")
