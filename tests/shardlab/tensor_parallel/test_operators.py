"""The operators, and how a model is cut and saved."""

import shutil

import pytest
import shardlab
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab import meter
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.tensor_parallel.checkpoint import joined, load, parted, read, save
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gpt import gpt_plan
from shardlab.tensor_parallel.gradients import cuts_of
from shardlab.tensor_parallel.messages import start_all_reduce
from shardlab.tensor_parallel.operators import copy_to_tp, gather, gather_to_all, reduce_from_tp, split, sum_and_scatter
from shardlab.tensor_parallel.plan import apply_plan

# ---- Six operators on real ranks: forwards by hand, each the adjoint of its partner, any memory layout. --------------


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


# ---- The arithmetic of cuts, and checkpoints written and read by different numbers of ranks. -------------------------

CONFIG = GPTConfig(layers=2, hidden=16, heads=8, sequence=8, vocabulary=13, kv_heads=2, gated=True)


@settings(deadline=None)
@given(
    units=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    rows=st.integers(1, 3),
    size=st.integers(1, 4),
    other=st.integers(1, 4),
    dim=st.integers(-2, 1),
    padded=st.booleans(),
)
def test_what_is_cut_is_joined_again_for_any_other_number_of_ranks(units, rows, size, other, dim, padded):
    units = units if padded else [12 * one for one in units]  # divisible by 1 to 4 ranks
    cut = Cut(tuple(rows * one for one in units), dim, () if padded else tuple(units), padded)
    whole = torch.randn(sum(cut.sections), sum(cut.sections))
    parts = [cut.part(whole, rank, size) for rank in range(size)]
    again = [cut.part(cut.join(parts), rank, other) for rank in range(other)]
    assert torch.equal(cut.join(again), whole)
    assert len({part.shape for part in parts}) == 1


def test_heads_that_several_ranks_have_are_joined_once():
    cut = Cut((8, 4), units=(4, 2))
    whole = torch.arange(12.0)
    assert [cut.part(whole, rank, 4).tolist() for rank in range(4)] == [
        [0, 1, 8, 9],
        [2, 3, 8, 9],
        [4, 5, 10, 11],
        [6, 7, 10, 11],
    ]
    assert torch.equal(cut.join([cut.part(whole, rank, 4) for rank in range(4)]), whole)


def new_model():
    torch.manual_seed(4)
    return GPT(CONFIG)


def saved(folder):
    model = apply_plan(new_model(), gpt_plan(CONFIG), group=None)
    save(model, folder, group=None)
    return True


def loaded(folder):
    model = apply_plan(GPT(CONFIG), gpt_plan(CONFIG, sequence_parallel=True), group=None)
    load(model, folder, group=None)
    due = apply_plan(new_model(), gpt_plan(CONFIG, sequence_parallel=True), group=None)
    pairs = zip(model.named_parameters(), due.named_parameters(), strict=True)
    return all(torch.equal(one, other) for (_, one), (_, other) in pairs)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (2, 8), (8, 1)])
def test_a_checkpoint_is_read_by_any_number_of_ranks(tmp_path, before, after):
    shardlab.run(saved, str(tmp_path / "step-1"), ranks=before, timeout=60)
    assert all(shardlab.run(loaded, str(tmp_path / "step-1"), ranks=after, timeout=60))
    whole = read(tmp_path / "step-1")
    assert all(torch.equal(whole[name], one) for name, one in new_model().named_parameters())
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]


def refused(folder, hidden):
    config = GPTConfig(layers=2, hidden=hidden, heads=8, sequence=8, vocabulary=13, kv_heads=2, gated=True)
    model = apply_plan(GPT(config), gpt_plan(config), group=None)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(ValueError, match=r"checkpoint|another model") as caught:
        load(model, folder, group=None)
    assert all(map(torch.equal, before, model.parameters()))
    return str(caught.value)


def test_a_checkpoint_of_another_model_or_without_a_file_is_refused(tmp_path):
    folder = str(tmp_path / "step-1")
    shardlab.run(saved, folder, ranks=2, timeout=60)
    assert (
        "token.weight has shape [13, 16] there, [13, 32] here"
        in shardlab.run(refused, folder, 32, ranks=2, timeout=60)[1]
    )
    (tmp_path / "step-1" / "rank-001.pt").unlink()
    assert "files of 1 ranks, not of 2" in shardlab.run(refused, folder, 16, ranks=2, timeout=60)[0]
    shutil.rmtree(folder)
    assert "files of 0 ranks" in shardlab.run(refused, folder, 16, ranks=2, timeout=60)[0]


def test_optimizer_states_are_converted_as_their_parameters_are():
    """Anything with a parameter's name and shape, such as a momentum, is converted the same way, without processes."""
    cuts = {"up": Cut((8,)), "down": Cut((8,), 1)}
    momentum = {"up": torch.randn(8, 3), "down": torch.randn(3, 8), "norm": torch.randn(3)}
    two = [parted(momentum, cuts, rank=rank, size=2) for rank in range(2)]
    four = [parted(joined(two, cuts), cuts, rank=rank, size=4) for rank in range(4)]
    assert all(torch.equal(joined(four, cuts)[name], momentum[name]) for name in momentum)
    assert cuts_of(GPT(CONFIG)) == {}
