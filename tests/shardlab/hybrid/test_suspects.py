"""The planted bugs on real ranks: each breaks only the expected kinds of gradients on one axis."""

import pytest
import shardlab
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
