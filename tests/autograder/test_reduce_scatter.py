"""A job's reduce-scatter: the same numbers as the library's, in the messages of a ring."""

import pytest
import torch
import torch.distributed as dist
from shardlab import meter, run

from autograder.jobs import reduce_scatter


def each_way(name):
    reduce_scatter.install()
    operation = getattr(dist.ReduceOp, name)
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.arange(2.0 * num_ranks).view(num_ranks, 2) + rank
    one, uneven, later = torch.empty(1, 2), torch.empty(rank), torch.empty(2)
    with meter.record() as bill:
        dist.reduce_scatter_single(one, whole, op=operation)
        dist.reduce_scatter(uneven, [torch.full((n,), rank + 1.0) for n in range(num_ranks)], op=operation)
        dist.reduce_scatter_single(later, whole.reshape(-1), op=operation, async_op=True).wait()
    return one, uneven, later, bill.kinds


@pytest.mark.parametrize(
    ("operation", "reduced"),
    [("SUM", torch.sum), ("AVG", torch.mean), ("MAX", torch.amax)],
)
@pytest.mark.slow
def test_every_way_to_ask_for_it_gives_the_reduced_slice(operation, reduced):
    answers = run(each_way, operation, ranks=3)
    for rank, (one, uneven, later, kinds) in enumerate(answers):
        slices = torch.stack([torch.arange(2.0 * rank, 2.0 * rank + 2) + other for other in range(3)])
        ones = torch.stack([torch.full((rank,), other + 1.0) for other in range(3)])
        assert torch.equal(one, reduced(slices, 0)[None])
        assert torch.equal(uneven, reduced(ones, 0))
        assert torch.equal(later, reduced(slices, 0))
        assert kinds == ["reduce_scatter"] * 3, "the bill names what was asked for, not the ring's messages"


@pytest.mark.slow
def test_slices_that_do_not_fit_are_a_sentence():
    def unfit():
        reduce_scatter.install()
        try:
            dist.reduce_scatter_single(torch.empty(2), torch.empty(5))
        except (ValueError, RuntimeError) as error:
            return str(error)

    assert all("5 numbers cannot be cut into slices of 2" in sentence for sentence in run(unfit, ranks=3))
