"""Six operators on real ranks: forwards by hand, each the adjoint of its partner, any memory layout."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.tensor_parallel.messages import start_all_reduce
from shardlab.tensor_parallel.operators import copy_to_tp, gather, gather_to_all, reduce_from_tp, split, sum_and_scatter


def values(rank, *shape):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def by_hand(dim):
    """Each operator's forward from all ranks' values, which every rank can draw, and what it sends."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = [values(one, 6, 6, 6) for one in range(size)]
    mine, total, joined = everyone[rank], sum(everyone), torch.cat(everyone, dim)
    due = {
        copy_to_tp: (mine, []),
        reduce_from_tp: (total, ["all_reduce"]),
        gather: (joined, ["all_gather"]),
        gather_to_all: (joined, ["all_gather"]),
        split: (mine.chunk(size, dim)[rank], []),
        sum_and_scatter: (total.chunk(size, dim)[rank], ["reduce_scatter"]),
    }
    for operator, (expected, kinds) in due.items():
        where = () if operator in (copy_to_tp, reduce_from_tp) else (dim,)
        for x in (mine, mine.transpose(0, 2).contiguous().transpose(0, 2)):  # the same numbers in another memory layout
            before = x.clone()
            with meter.record() as bill:
                got = operator(x, *where, group=None)
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
            assert bill.kinds == kinds and torch.equal(x, before), operator
    return len(due)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_each_forward_is_what_one_does_by_hand(dim):
    assert shardlab.run(by_hand, dim, ranks=3, timeout=60) == [6] * 3


def adjoints(dim):
    """Whether each operator's backward is its partner's forward, in both directions, for gradients of any layout."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pairs = [(lambda x: copy_to_tp(x, group=None), lambda x: reduce_from_tp(x, group=None))]
    for one, other in ((gather_to_all, sum_and_scatter), (gather, split)):
        pairs.append((lambda x, one=one: one(x, dim, group=None), lambda x, other=other: other(x, dim, group=None)))
    results = []
    for forward, backward in [*pairs, *((other, one) for one, other in pairs)]:
        x = values(rank, 3, 2 * size, 2 * size).requires_grad_()
        output = forward(x)
        y = values(70 + rank, *output.shape)
        (gradient,) = torch.autograd.grad(output, x, y)
        results.append(torch.equal(gradient, backward(y)))
    return results


@pytest.mark.parametrize("dim", [1, -1])
def test_each_operator_is_the_adjoint_of_its_partner(dim):
    assert shardlab.run(adjoints, dim, ranks=3, timeout=30) == [[True] * 6] * 3


def dot_products():
    """<A x, y> - <x, A* y> over all ranks, with the ranks' inputs as one long vector, and likewise their outputs."""
    rank = dist.get_rank()
    apart = []
    for operator in (gather_to_all, sum_and_scatter):
        x = values(rank, 6, 2).requires_grad_()
        output = operator(x, 0, group=None)
        y = values(40 + rank, *output.shape)
        (gradient,) = torch.autograd.grad(output, x, y)
        both = torch.stack([(output * y).sum(), (x * gradient).sum()]).detach()
        dist.all_reduce(both)
        apart.append(abs(both[0] - both[1]).item())
    return max(apart)


def test_dot_products_prove_the_twins_adjoint():
    assert max(shardlab.run(dot_products, ranks=3, timeout=30)) < 1e-12


def expanded():
    """An expanded gradient without dense storage, as from `y.sum()`, and a transposed one."""
    x = torch.ones(4, 6, requires_grad=True)
    copy_to_tp(x, group=None).sum().backward()
    plain, x.grad = x.grad, None
    weight = torch.arange(24.0).view(6, 4)
    (copy_to_tp(x, group=None).t() * weight).sum().backward()
    return plain.unique().tolist(), torch.equal(x.grad, dist.get_world_size() * weight.t())


def test_gradients_in_any_order_of_memory_are_summed():
    assert shardlab.run(expanded, ranks=2, timeout=30) == [([2.0], True)] * 2


def message_of_transposed():
    """A contiguous copy is sent, and the result must be that copy instead of the input."""
    x = values(dist.get_rank(), 3, 4).t()
    due = sum(values(one, 3, 4).t() for one in range(dist.get_world_size()))
    return torch.allclose(start_all_reduce(x, group=None)(), due)


def test_the_sum_of_a_transposed_tensor_is_returned():
    assert all(shardlab.run(message_of_transposed, ranks=2, timeout=30))


def refusals():
    told = []
    with meter.record() as bill:
        for operator in (split, sum_and_scatter):
            for length in (1, 5):
                with pytest.raises(ValueError, match="use") as caught:
                    operator(torch.zeros(2, length), 1, group=None)
                told.append(str(caught.value))
    return told, bill.kinds


def test_what_the_ranks_do_not_divide_is_refused_before_anything_is_sent():
    short, odd = (
        "dimension 1 of 1 cannot be split over 2 ranks: use 2, or a tensor-parallel size among [1]",
        "dimension 1 of 5 cannot be split over 2 ranks: use 4 or 6, or a tensor-parallel size among [1, 5]",
    )
    assert shardlab.run(refusals, ranks=2, timeout=30) == [([short, odd, short, odd], [])] * 2


def places():
    """The code line that the meter reports for each message of four operators, forward and then backward."""
    x = torch.ones(4, 4, requires_grad=True)
    with meter.record() as bill:
        y = reduce_from_tp(copy_to_tp(x, group=None), group=None)
        split(sum_and_scatter(y, 0, group=None), 1, group=None).sum().backward()
    return [(event.kind, event.where) for event in bill.events]


def test_a_message_is_said_to_come_from_its_operator():
    found, _ = shardlab.run(places, ranks=2, timeout=30)
    assert [kind for kind, _ in found] == ["all_reduce", "reduce_scatter", "all_gather", "all_gather", "all_reduce"]
    assert all(where.endswith("of operators.py") for _, where in found)
    assert len({where for _, where in found}) == 5 - 1  # both directions of g's twin are on one line
