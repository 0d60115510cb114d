"""Random meshes, schedules and models match one process in losses, norms and updated weights, or are refused."""

from collections import Counter

import pytest
import shardlab

from tests.shardlab.generated.meshes import compared, draw_mesh_case, train_meshes

CASES = [(world, range(first, first + 8)) for world, last in ((2, 24), (4, 16)) for first in range(0, last, 8)]
REFUSALS = (
    "sends gradients from hooks of a full backward",
    "a tied embedding in two stages of one rank",
    "by Ulysses: use ranks among",
    "dropout on attention scores",
)


@pytest.mark.parametrize(("world", "seeds"), CASES, ids=lambda value: str(value).replace(" ", ""))
def test_a_random_mesh_trains_as_one_process(world, seeds):
    by_rank = shardlab.run(train_meshes, list(seeds), world, ranks=world, timeout=170)
    for seed in seeds:
        found = compared(seed, world, [of_rank[seed] for of_rank in by_rank])
        if isinstance(found, str):
            assert any(sentence in found for sentence in REFUSALS), (world, seed, found)
        else:
            assert found < 1e-7, (world, seed)


def test_cases_are_of_every_sort():
    """The generator covers everything it is meant to cover."""
    cases = [draw_mesh_case(seed, world) for world, seeds in CASES for seed in seeds]
    counts = Counter()
    for case in cases:
        sizes = {axis for axis in ("dp", "pp", "cp", "tp", "ep") if getattr(case.mesh, axis) > 1}
        facts = {"frozen": case.frozen, "tied": case.config.tied, "rope": case.config.rope, "experts": case.moe}
        counts.update(sizes | {name for name, fact in facts.items() if fact})
        counts["narrow"] += case.config.hidden // case.config.heads < 3
    assert len(cases) == 40 and min(counts.values()) >= 4, counts
    assert len({case.settings.schedule for case in cases}) == 7
