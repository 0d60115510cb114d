"""Refusals on every rank, spoiled gradients, and suspects."""

from dataclasses import replace
from functools import partial

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel import Ulysses
from shardlab.context_parallel.training import IGNORED
from shardlab.hybrid import MeshTrainer, Settings
from shardlab.hybrid.race import RANKS, REFERENCE, STEPS, RaceEntry, from_dict, race, raced
from shardlab.hybrid.suspects import (
    EXPERTS as EXPERTS_of_suspects,
)
from shardlab.hybrid.suspects import (
    FAULTS,
    LAST,
    MEANS,
    NORMS,
    NOTHING,
    REPLICAS,
    TIED,
    gradients_of_suspect,
    joined,
)
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.pipeline_parallel.builders import dualpipe, interleaved, zb_h1, zbv

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, adam, new_model, own_rows, started

# ---- Unsupported training raises one sentence, the same on every rank, and no rank hangs. ----------------------------

TWO = Settings(num_microbatches=2)
REFUSED = {
    "use 1 to 4 stages": Case(Mesh(pp=4), replace(TWO, schedule=interleaved), replace(DENSE, layers=4)),
    r"4 heads and 1 key-value heads cannot be split over tp = 8: use a tp among \[1, 2, 4\]": Case(
        Mesh(tp=8), TWO, replace(DENSE, kv_heads=1)
    ),
    "cannot be split over 4 ranks by Ulysses": Case(
        Mesh(cp=4, tp=2), replace(TWO, context=Ulysses()), replace(DENSE, heads=4, kv_heads=4)
    ),
    r"4 experts cannot be split over ep = 8: use an ep among \[1, 2, 4\]": Case(Mesh(dp=8, ep=8), TWO, moe=EXPERTS),
    "experts of width 6 cannot be split over etp = 4": Case(Mesh(tp=4), TWO, moe=replace(EXPERTS, width=6)),
    "the model has no experts: use ep = 1": Case(Mesh(dp=2, ep=2), TWO),
    "places each stage once, such as dualpipe_v": Case(Mesh(pp=2), replace(TWO, schedule=dualpipe, num_microbatches=4)),
    "zero = 2 sends gradients from hooks of a full backward": Case(Mesh(pp=2), replace(TWO, schedule=zb_h1, zero=2)),
    "zero = 3 sends gradients from hooks": Case(Mesh(pp=2), replace(TWO, schedule=zbv, zero=3)),
    "use zero = 1, 2 or 3": Case(Mesh(dp=2), replace(TWO, replicas=2)),
    "3 replicas do not divide the 2 ranks of dp-cp": Case(Mesh(dp=2), replace(TWO, replicas=3, zero=1)),
    "use one of none, selective, full, stage": Case(Mesh(), replace(TWO, recompute="all")),
    "zero = 4: use 0": Case(Mesh(), replace(TWO, zero=4)),
    "cannot be split into 8 pieces": Case(Mesh(cp=4), TWO, replace(DENSE, sequence=12)),
}


def refused(case):
    with pytest.raises(ValueError, match=r"use|give") as caught:
        started(case)
    return str(caught.value)


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_combination_is_refused_alike_on_every_rank(sentence):
    case = REFUSED[sentence]
    told = shardlab.run(refused, case, ranks=case.mesh.world, timeout=60)
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError(told[0])
    assert len(set(told)) == 1


def steps_that_cannot_be():
    """A trainer's errors for batches that do not match. Afterwards it continues to train."""
    case = Case(Mesh(dp=2, pp=2), TWO, rows=2)
    trainer, replica = started(case)
    rank = dist.get_rank()
    tokens, labels = own_rows(case, 0, replica)
    told = []
    for wrong_tokens, wrong_labels in (
        (tokens[:1], labels[:1]),  # one sequence for two microbatches
        (tokens[: 2 - rank // 3], labels[: 2 - rank // 3]),  # only rank 3 has fewer
        (tokens.roll(rank // 3, 1), labels),  # or different ones from its pipeline's first rank
        (tokens, labels[:, :-1]) if rank == 1 else (tokens, labels),
        (tokens + 13 * (rank == 2), labels),
        (tokens, torch.full_like(labels, IGNORED)),
        (tokens.repeat(1, 2), labels.repeat(1, 2)),
    ):
        with pytest.raises(ValueError, match=r"use|give") as caught:
            trainer.step(wrong_tokens, wrong_labels)
        told.append(str(caught.value))
    return told, trainer.step(tokens, labels).loss


def test_a_batch_that_does_not_fit_is_refused_by_all():
    by_rank = shardlab.run(steps_that_cannot_be, ranks=4, timeout=60)
    assert all(one == by_rank[0] for one in by_rank)
    rows, fewer, others, shape, token, nothing, long = by_rank[0][0]
    assert "1 sequences cannot be split into 2 microbatches: use 2 sequences" in rows
    assert "rank 3 has 1 sequences of 16 tokens, but rank 0 has 2 of 16" in fewer
    assert "rank 3 has different tokens or labels from rank 1, but both work on replica 1" in others
    assert "rank 1: tokens [2, 16] with labels [2, 15]" in shape
    assert "rank 2: token" in token and "outside the vocabulary of 13" in token
    assert "every label on every rank is -100" in nothing
    assert "32 tokens for a model with 16 positions: use 16 or fewer" in long


def different_ranks(what):
    groups, settings, optimizer = create_process_groups(Mesh(dp=2)), TWO, adam
    model = new_model(Case())
    if dist.get_rank() == 1:
        if what == "zero":
            settings = replace(TWO, zero=1)
        elif what == "lr":
            optimizer = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)
        else:
            model.norm.weight.data[3] += 1
    with pytest.raises(ValueError, match="Give every rank the same") as caught:
        MeshTrainer(model, groups, optimizer, settings)
    return str(caught.value)


@pytest.mark.parametrize(("what", "named"), [("zero", "zero = 1"), ("lr", "0.001"), ("numbers", "norm.weight")])
def test_ranks_that_differ_are_told_in_what(what, named):
    told = shardlab.run(different_ranks, what, ranks=2, timeout=30)
    assert named in told[0] and told[0] == told[1]


def not_finite():
    case = Case(Mesh(dp=2, pp=2), TWO, rows=2)
    trainer, replica = started(case)
    before = [one.detach().clone() for one in trainer.masters()]
    if dist.get_rank() == 1:
        next(iter(trainer.parts[0].blocks.values())).up.weight.data.fill_(torch.inf)
        before = [one.detach().clone() for one in trainer.masters()]
    with pytest.raises(ValueError, match="No weight was changed") as caught:
        trainer.step(*own_rows(case, 0, replica))
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.masters(), strict=True))
    return str(caught.value)


def test_a_gradient_that_is_no_number_stops_every_rank():
    told = shardlab.run(not_finite, ranks=4, timeout=60)
    assert len(set(told)) == 1 and told[0].startswith("rank 1: the gradient of ")


def test_a_function_cannot_be_cut_by_zero():
    told = shardlab.run(refused, Case(Mesh(dp=2), replace(TWO, zero=1), optimizer=as_function), ranks=2, timeout=30)
    assert "give a class or functools.partial(torch.optim.AdamW, lr=1e-3), not a function" in told[0]


def as_function(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


# ---- The planted bugs on real ranks, each of which breaks gradients on one axis; and the race of recipes. ------------

ALL = {"dense", "expert", "norm", "tied"}
PAIRS = {axis: (Mesh(), Mesh(**{axis: 2})) for axis in ("tp", "pp", "cp", "dp")}
PAIRS["ep"] = Mesh(dp=2), Mesh(dp=2, ep=2)
CULPRITS = {
    NOTHING: (None, set()),
    NORMS: ("tp", {"norm"}),
    EXPERTS_of_suspects: ("ep", {"expert"}),
    MEANS: ("cp", ALL),
    TIED: ("pp", {"tied"}),
    LAST: ("pp", ALL),
    REPLICAS: ("dp", ALL),
}


def kind_of(name):
    if name == "token.weight":
        return "tied"
    return "norm" if "norm" in name else "expert" if "experts" in name else "dense"


def all_suspects(mesh):
    return [gradients_of_suspect(fault, mesh) for fault in CULPRITS]


def by_fault(mesh):
    found = shardlab.run(all_suspects, mesh, ranks=mesh.world, timeout=60)
    return {
        fault: (found[0][number][0], joined([ranks[number][1] for ranks in found]))
        for number, fault in enumerate(CULPRITS)
    }


@pytest.mark.slow
@pytest.mark.parametrize("axis", list(PAIRS))
def test_each_bug_breaks_one_axis(axis):
    before, after = (by_fault(mesh) for mesh in PAIRS[axis])
    for fault, (culprit, kinds) in CULPRITS.items():
        (loss, good), (other_loss, found) = before[fault], after[fault]
        largest = max(one.abs().max() for one in good.values())
        wrong = {kind_of(name) for name in good if (found[name] - good[name]).abs().max() > 1e-3 * largest}
        if axis == culprit:
            assert wrong == kinds, fault
        elif culprit != "dp" or axis != "ep":
            assert not wrong, fault
        assert other_loss == pytest.approx(loss, rel=1e-3), fault  # the logs look the same


def test_there_are_six_bugs_and_one_healthy_step():
    assert len(FAULTS) == 6 and {*FAULTS, NOTHING} == set(CULPRITS)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"zero_stage": 1}, "has no 'zero_stage'"),
        ({"zero": "1"}, "give a value like 0"),
        ({"zero": True}, "give a value like 0"),
        ({"tp": 2}, "use a mesh of 4 ranks"),
        ({"ep": 3}, "use 1, 2 or 4"),
        ({"dp": 4, "microbatches": 3}, "product divides 8"),
        ({"microbatches": 0}, "product divides 8"),
        ({"schedule": "fast"}, "use one of gpipe"),
        ({"learning_rate": 2.0}, "between 0 and 1"),
    ],
)
def test_recipes_that_cannot_be_raced(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_dict(given)


def test_what_is_left_out_is_the_references():
    assert from_dict({}) == REFERENCE and from_dict({"dp": 2, "tp": 2}) == RaceEntry(dp=2, tp=2)


@pytest.mark.slow
def test_four_ranks_do_what_one_does_with_less_memory():
    recipe = from_dict({"pp": 2, "dp": 2, "ep": 2, "zero": 1, "microbatches": 4, "learning_rate": 0.007})
    laps = shardlab.run(race, recipe, ranks=4, timeout=90)
    (alone,) = shardlab.run(race, recipe.alone, ranks=1, timeout=90)
    assert len(alone.losses) == STEPS and alone.losses[-1] < alone.losses[0]
    assert all(one.losses == pytest.approx(alone.losses, rel=1e-5) for one in laps)
    assert max(one.peak_bytes for one in laps) < 0.5 * alone.peak_bytes
    assert all(one.tokens_per_second > 0 for one in laps)


@pytest.mark.slow
def test_a_race_has_a_lap_of_every_rank_and_is_refused_before_it_starts():
    laps = raced({"dp": 4})
    assert len(laps) == RANKS and all(one.losses == pytest.approx(laps[0].losses) for one in laps)
    with pytest.raises(ValueError, match="use a mesh of 4 ranks"):
        raced({"tp": 2})
