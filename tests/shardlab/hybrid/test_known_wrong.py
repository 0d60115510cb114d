"""Silent mistakes: each must show up as a difference from one process, in the values it affects."""

from dataclasses import replace

import pytest
import shardlab
import torch
from shardlab.hybrid import Settings, batch, mesh_trainer, part, sums, weights
from shardlab.mesh import Mesh

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, differences, sgd, trained

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
