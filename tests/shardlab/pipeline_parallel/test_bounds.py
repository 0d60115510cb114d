"""The least time under a cap: no order of passes beats it, and 1F1B meets it where the cap does not bind."""

from itertools import permutations, product

import pytest
from shardlab.pipeline_parallel.bounds import least_makespan
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.schedule import Schedule, parse_schedule
from shardlab.pipeline_parallel.simulation import peak_activations, simulate


def orders_of(rank: int, num_microbatches: int) -> list[list[str]]:
    """Every order of one rank's passes in which each backward comes after its forward."""
    slots = [f"{rank}{kind}{m}" for kind in "FB" for m in range(num_microbatches)]
    places = [{slot: place for place, slot in enumerate(order)} for order in permutations(slots)]
    return [
        sorted(at, key=at.__getitem__)
        for at in places
        if all(at[f"{rank}F{m}"] < at[f"{rank}B{m}"] for m in range(num_microbatches))
    ]


def quickest(num_microbatches: int, max_activations: int) -> float:
    """The least makespan of all legal schedules of two ranks under a cap."""
    best = float("inf")
    for lanes in product(orders_of(0, num_microbatches), orders_of(1, num_microbatches)):
        schedule: Schedule = parse_schedule(lanes)
        if max(peak_activations(schedule)) <= max_activations:
            try:
                best = min(best, simulate(schedule).makespan)
            except ValueError:  # waits forever
                continue
    return best


@pytest.mark.parametrize(("num_microbatches", "max_activations"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)])
def test_of_all_orders_the_best_meets_the_bound(num_microbatches, max_activations):
    assert quickest(num_microbatches, max_activations) == least_makespan(2, num_microbatches, max_activations)


def test_one_f_one_b_meets_it_where_the_cap_does_not_bind():
    for ranks, microbatches in [(1, 3), (4, 8), (5, 2), (8, 8)]:
        assert simulate(one_f_one_b(ranks, microbatches)).makespan == least_makespan(ranks, microbatches, ranks)


def test_a_cap_of_one_is_one_microbatch_at_a_time():
    assert least_makespan(4, 8, 1) == 8 * 4 * 3
    assert least_makespan(4, 8, 1, forward=2, backward=5) == 8 * 4 * 7


def test_no_room_is_refused_with_a_sentence():
    with pytest.raises(ValueError, match="allow 1 or more"):
        least_makespan(4, 8, 0)
