"""Known mistakes, saved pieces, and the race."""

from dataclasses import replace
from typing import Any

import pytest
import shardlab
import torch
from hypothesis import given
from hypothesis import strategies as st
from shardlab.hybrid import (
    Settings,
    after_load,
    batch,
    chunks_to_load,
    chunks_to_save,
    mesh_trainer,
    part,
    sums,
    weights,
)
from shardlab.hybrid.places import cut_place, fragments, rectangles
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import interleaved, zbv
from shardlab.tensor_parallel.cut import Cut

from tests.shardlab.hybrid.five_axes import (
    DENSE,
    EXPERTS,
    Case,
    batch_of,
    differences,
    own_rows,
    put_together,
    sgd,
    started,
    trained,
    trained_alone,
)

# ---- Silent mistakes: each must show up as a difference from one process, in the values it affects. ------------------

TWO = Settings(num_microbatches=2, max_norm=0.1)


def experts_times_ep():
    """The upstream bug of DeepSpeed#5618: divide by the copies of an expert, although all ranks have tokens."""
    reduce = weights.WholeWeights.reduce

    def wrong(self):
        reduce(self)
        for one in self.masters.values():
            if one.dim() == 3 and len(one) == EXPERTS.choice.experts // 2:
                one.grad *= 2

    weights.WholeWeights.reduce = wrong


def norm_without_experts():
    squares_of = sums.squares_of
    mesh_trainer.squares_of = lambda owned: squares_of(one for one in owned if not one.place.is_expert)


def norm_counts_copies_again():
    squares_of = sums.squares_of

    def wrong(owned):
        once = [one._replace(fragments=[replace(block, copies=1) for block in one.fragments]) for one in owned]
        return squares_of(once)

    mesh_trainer.squares_of = wrong


def tied_embedding_is_not_added():
    mesh_trainer.sum_tied_slices = lambda *_, **__: None


def partial_gradients_are_left():
    mesh_trainer.sum_partial_slices = lambda *_, **__: None


def mean_of_means():
    """Each rank divides by its own valid tokens, and then the mean over replicas is taken."""
    valid = batch.num_valid_tokens

    def wrong(tokens, labels, groups, *, vocabulary):
        valid(tokens, labels, groups, vocabulary=vocabulary)
        return int((labels != batch.IGNORED).sum()) * groups.mesh.dp

    mesh_trainer.num_valid_tokens = wrong


def auxiliary_loss_times_microbatches():
    spread = part._spread_experts

    def wrong(stage, groups, settings):
        spread(stage, groups, settings)
        for one in sums.routed_layers([stage]):
            one.weight_of_loss *= settings.num_microbatches

    part._spread_experts = wrong


def loads_count_twice():
    updated = sums.update_biases

    def wrong(parts, *, rate, group):
        for one in sums.routed_layers(parts):
            one.load_of_step = one.load_E  # only the last microbatch
        updated(parts, rate=rate, group=group)

    mesh_trainer.update_biases = wrong


def tokens_visit_twice():
    """Every tp rank routes all tokens."""
    part.split = lambda x, dim, *, group: x
    part.gather = lambda x, dim, *, group: x


MOE = Case(Mesh(dp=2, ep=2), TWO, moe=EXPERTS, optimizer=sgd)
WRONG = {
    experts_times_ep: MOE,
    norm_without_experts: MOE,
    auxiliary_loss_times_microbatches: MOE,
    loads_count_twice: replace(MOE, settings=replace(TWO, bias_rate=0.01)),
    tokens_visit_twice: Case(Mesh(tp=2, ep=2, etp=1), TWO, moe=EXPERTS, optimizer=sgd),
    tied_embedding_is_not_added: Case(Mesh(pp=2), TWO, optimizer=sgd),
    partial_gradients_are_left: Case(Mesh(tp=2), replace(TWO, sequence_parallel=True), optimizer=sgd),
    norm_counts_copies_again: Case(Mesh(tp=4), TWO, replace(DENSE, tied=False), optimizer=sgd),
    mean_of_means: Case(Mesh(dp=2), TWO, optimizer=sgd),
}


def spoiled(mistake, case):
    mistake()
    return trained(case)


@pytest.mark.parametrize("mistake", WRONG, ids=lambda mistake: mistake.__name__)
def test_a_known_mistake_is_seen(mistake):
    case = WRONG[mistake]
    found = differences(case, shardlab.run(spoiled, mistake, case, ranks=case.mesh.world, timeout=60))
    assert max(found) > 1e-4, found
    assert torch.isfinite(torch.tensor(found)).all()


# ---- One mesh saves and another loads: blocks of whole tensors, each element once, under global names. ---------------

shapes = st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple)


@given(shapes, st.data())
def test_rectangles_are_the_stretch(shape, data):
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    begin = data.draw(st.integers(0, numbers.numel()))
    end = data.draw(st.integers(begin, numbers.numel()))
    found = []
    for start, sizes in rectangles(shape, begin, end):
        block = numbers[tuple(slice(s, s + n) for s, n in zip(start, sizes, strict=True))]
        assert block.is_contiguous()
        found += block.flatten().tolist()
    assert found == list(range(begin, end))
    assert len(list(rectangles(shape, begin, end))) <= max(1, 2 * len(shape) - 1)


CUTS = [
    (Cut((6,)), (6, 3)),
    (Cut((4, 4), dim=1), (3, 8)),
    (Cut((8, 4, 4), units=(4, 2, 2)), (16, 3)),
    (Cut((7,), padded=True), (7, 2)),
    (Cut((4, 4)), (8,)),
]


@given(st.sampled_from(CUTS), st.sampled_from([1, 2, 4]), st.integers(1, 3))
def test_all_ranks_blocks_make_the_whole(one, size, num_slices):
    cut, shape = one
    if any(not cut.padded and not cut.units and section % size for section in cut.sections):
        return
    whole = 1 + torch.arange(torch.Size(shape).numel()).view(shape)
    again, times = torch.zeros_like(whole), torch.zeros(shape)
    for rank in range(size):
        part = cut.part(whole, rank, size)
        place = cut_place("weight", tuple(part.shape), 0, cut=cut, rank=rank, size=size)
        assert place.shape == shape
        each = -(-part.numel() // num_slices)
        for begin in range(0, part.numel(), each):  # a ZeRO shard of it, stored in a vector from index 5
            end = min(begin + each, part.numel())
            vector = torch.cat([torch.zeros(5, dtype=part.dtype), part.flatten()[begin:end]])
            for block in fragments(place, part.shape, begin, end, at=5):
                numbers = block.of(vector)
                box = tuple(slice(o, o + n) for o, n in zip(block.offsets, numbers.shape, strict=True))
                again[box] = numbers
                times[box] += 1 / block.copies
    assert torch.equal(again, whole)
    assert torch.allclose(times, torch.ones(shape))


TWO_PIECES = Settings(num_microbatches=2, max_norm=0.1, bias_rate=0.01)
ALL = ("weight", "buffer", "exp_avg", "exp_avg_sq", "step")
MOE_PIECES: dict[str, Any] = {"moe": EXPERTS, "rows": 4}
MESHES = [
    Case(Mesh(), TWO_PIECES, **MOE_PIECES),
    Case(Mesh(tp=2, dp=2, ep=2), replace(TWO_PIECES, sequence_parallel=True), **MOE_PIECES),
    Case(Mesh(pp=2, cp=2), replace(TWO_PIECES, schedule=zbv, zero=1), **MOE_PIECES),
    Case(Mesh(dp=4, ep=2), replace(TWO_PIECES, zero=2), **MOE_PIECES),
    Case(Mesh(dp=2, tp=2, ep=2, etp=1), replace(TWO_PIECES, zero=3), **MOE_PIECES),
    Case(Mesh(dp=2, cp=2), replace(TWO_PIECES, zero=1, replicas=2), **MOE_PIECES),
    Case(Mesh(pp=2, tp=2), replace(TWO_PIECES, schedule=interleaved, split_vocabulary=True), **MOE_PIECES),
    Case(
        Mesh(pp=2, dp=2, ep=2),
        replace(TWO_PIECES, zero=1),
        frozen=("token.*", "position.*", "blocks.0.*"),
        **MOE_PIECES,
    ),
]
PLAIN = replace(TWO_PIECES, bias_rate=0.0)
DENSE_MESHES = [
    Case(Mesh(tp=4), PLAIN),
    Case(Mesh(dp=3), replace(PLAIN, zero=2)),  # slices end inside rows, with padding
    Case(Mesh(pp=2, tp=2), replace(PLAIN, zero=1)),
]


def saved(case, num_steps):
    """Run some steps, and return everything that this rank would write."""
    trainer, replica = started(case)
    for step in range(num_steps):
        trainer.step(*own_rows(case, step, replica))
    return [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.clone()) for c in chunks_to_save(trainer)]


def loaded(case, whole, first, num_steps):
    """Load a checkpoint and continue. Returns losses, norms and everything that this rank would write."""
    trainer, replica = started(case)
    for one in trainer.places:
        if not one.requires_grad:
            one.zero_()  # a checkpoint also has frozen weights
    for chunk in chunks_to_load(trainer):
        source = whole[chunk.key, chunk.kind]
        assert tuple(source.shape) == chunk.global_shape
        box = tuple(slice(o, o + n) for o, n in zip(chunk.offsets, chunk.tensor.shape, strict=True))
        with torch.no_grad():
            chunk.tensor.copy_(source[box])
    after_load(trainer)
    told = [trainer.step(*own_rows(case, step, replica)) for step in range(first, first + num_steps)]
    chunks = [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.clone()) for c in chunks_to_save(trainer)]
    return [one.loss for one in told], [one.norm for one in told], chunks


def run(function, case, *args):
    return shardlab.run(function, case, *args, ranks=case.mesh.world, timeout=120)


@pytest.mark.parametrize("case", MESHES, ids=str)
def test_what_a_mesh_saves_one_process_loads_and_what_that_saves_the_mesh(case):
    one = Case(Mesh(), TWO_PIECES, config=case.config, moe=case.moe, rows=case.rows * case.mesh.dp)
    model, losses, norms = trained_alone(replace(case, steps=4))
    of_mesh = put_together(run(saved, case, 2), ALL)
    there = run(loaded, case, of_mesh, 2, 2)
    assert differences(case, there, (model, losses[2:], norms[2:]))[2] < 1e-8  # compared with itself
    of_one = put_together(run(saved, one, 2), ALL) if case.mesh.dp == 1 else of_mesh
    assert of_one.keys() == of_mesh.keys()
    if case.mesh.dp == 1:  # same microbatches, same numbers
        for name, tensor in of_one.items():
            assert torch.allclose(tensor, of_mesh[name], rtol=0, atol=1e-8), name


@pytest.mark.parametrize("case", DENSE_MESHES, ids=str)
@pytest.mark.parametrize("other", DENSE_MESHES, ids=str)
def test_any_mesh_goes_on_where_any_other_stopped(case, other):
    case, other = (replace(one, rows=12 // one.mesh.dp, steps=4) for one in (case, other))
    assert torch.equal(batch_of(case, 0)[0], batch_of(other, 0)[0])
    model, losses, norms = trained_alone(case)
    whole = put_together(run(saved, case, 2), ALL)
    loss, norm, weight = differences(other, run(loaded, other, whole, 2, 2), (model, losses[2:], norms[2:]))
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)
