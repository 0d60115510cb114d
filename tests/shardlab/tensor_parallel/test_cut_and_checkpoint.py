"""The arithmetic of cuts, and checkpoints written and read by different numbers of ranks."""

import shutil

import pytest
import shardlab
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from shardlab.model.gpt import GPT, GPTConfig
from shardlab.tensor_parallel.checkpoint import joined, load, parted, read, save
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gpt import gpt_plan
from shardlab.tensor_parallel.gradients import cuts_of
from shardlab.tensor_parallel.plan import apply_plan

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
