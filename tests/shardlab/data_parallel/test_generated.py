"""Generated models in every data-parallel wrapper: losses, gradients and weights match one process."""

import pytest
import shardlab

from tests.shardlab.data_parallel.wrapped import WRAPPERS, compare_all
from tests.shardlab.generated.cases import model_case

SEEDS = {2: range(22), 3: range(22, 30)}  # by ranks


@pytest.mark.parametrize("ranks", SEEDS)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_same_as_one_process(wrapper, ranks):
    for different in shardlab.run(compare_all, wrapper, SEEDS[ranks], ranks=ranks, timeout=300, observe=False):
        assert not different, different


def branches_in_a_recomputed_block(seed: int) -> bool:
    """Whether ranks take different branches in a block recomputed as a whole, where no hook sees the start."""
    case = model_case(seed, same_routes=True)
    blocks = {
        number for number, plan in enumerate(case.blocks) if plan.branch and plan.recomputed.startswith("outside")
    }
    used = [one for step in case.microbatches for one in step if blocks & {*one.routes[0]}]
    return any(len(set(one.both)) > 1 for one in used)


@pytest.mark.parametrize("wrapper", ["zero3", "zero++"])
def test_branches_of_a_recomputed_block_reduce_in_one_order(wrapper):
    seeds = [169, *list(filter(branches_in_a_recomputed_block, range(100, 160)))[:7]]
    assert len(seeds) == 8
    for different in shardlab.run(compare_all, wrapper, seeds, ranks=2, timeout=300, observe=False):
        assert not different, different


def test_a_seed_draws_the_same_case_every_time():
    first, second = model_case(7), model_case(7)
    assert first.blocks == second.blocks
    for one, other in zip(first.new_model().parameters(), second.new_model().parameters(), strict=True):
        assert one.equal(other)


def test_the_seeds_have_all_that_makes_sharding_hard():
    cases = [model_case(seed) for seeds in SEEDS.values() for seed in seeds]
    plans = [plan for case in cases for plan in case.blocks]
    for trait in ("branch", "aside", "tied", "scalar", "empty", "single", "buffer", "uses_extra"):
        assert any(getattr(plan, trait) for plan in plans), trait
    assert {plan.recomputed for plan in plans} == {"no", "inside", "outside", "inside, nested", "outside, nested"}
    assert {plan.frozen for plan in plans} == {"nothing", "bias", "all"}
    routes = [(case, route) for case in cases for step in case.microbatches for one in step for route in one.routes]
    assert any(len(set(route)) < len(route) for _, route in routes)  # a block used twice
    assert any(len(set(route)) < len(case.blocks) for case, route in routes)  # a block left out
    assert any(not one.is_synchronized for case in cases for step in case.microbatches for one in step)
    assert {case.losses_apart for case in cases} == {True, False}
