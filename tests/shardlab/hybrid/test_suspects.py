"""The planted bugs on real ranks, each of which breaks gradients on one axis; and the race of recipes."""

import pytest
import shardlab
from shardlab.hybrid.race import RANKS, REFERENCE, STEPS, RaceEntry, from_dict, race, raced
from shardlab.hybrid.suspects import (
    EXPERTS,
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

ALL = {"dense", "expert", "norm", "tied"}
PAIRS = {axis: (Mesh(), Mesh(**{axis: 2})) for axis in ("tp", "pp", "cp", "dp")}
PAIRS["ep"] = Mesh(dp=2), Mesh(dp=2, ep=2)
CULPRITS = {
    NOTHING: (None, set()),
    NORMS: ("tp", {"norm"}),
    EXPERTS: ("ep", {"expert"}),
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
