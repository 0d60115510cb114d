"""Every axis, alone and combined, compared with one process: losses, norms and all weights after some steps.

Also in bfloat16 with float32 sums, masters and states; with models built layer by layer; and with a NaN gradient, which
is blamed on the rank where it arose.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
import shardlab
import torch
from shardlab.context_parallel import Gathered, Ulysses, contiguous
from shardlab.hybrid import LayerByLayer, MeshTrainer, Settings, chunks_to_save
from shardlab.hybrid.sums import NotFinite
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.pipeline_parallel.builders import dualpipe_v, gpipe, interleaved, one_f_one_b, v_half, zb_h1, zbv
from shardlab.train.hook import Hook
from shardlab.train.loop import train

from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, differences, put_together, sgd, started, trained
from tests.shardlab.train.small import recipe

TWO = Settings(num_microbatches=2, max_norm=0.1)
HALVES = (one_f_one_b, zb_h1)
CASES = [
    Case(Mesh(dp=2), TWO),
    Case(Mesh(tp=2), TWO),
    Case(Mesh(tp=4), TWO),  # neighbors share a key-value head
    Case(Mesh(tp=4), replace(TWO, sequence_parallel=True), optimizer=sgd),
    Case(Mesh(cp=2), TWO),
    Case(Mesh(cp=2), replace(TWO, context=Ulysses(), layout=contiguous)),
    Case(Mesh(cp=2, tp=2), replace(TWO, context=Gathered(), sequence_parallel=True), replace(DENSE, rope=True)),
    Case(Mesh(pp=2), TWO),
    Case(Mesh(pp=2), replace(TWO, schedule=interleaved)),
    Case(Mesh(pp=2), replace(TWO, schedule=zb_h1)),
    Case(Mesh(pp=2), replace(TWO, schedule=zbv)),
    Case(Mesh(pp=2), replace(TWO, schedule=dualpipe_v, num_microbatches=4)),
    Case(Mesh(pp=2), replace(TWO, schedule=v_half, num_microbatches=4)),
    Case(Mesh(pp=2, dp=2, tp=2), replace(TWO, schedule=gpipe), replace(DENSE, tied=False)),
    Case(Mesh(pp=2, cp=2, tp=2), replace(TWO, sequence_parallel=True)),
    Case(Mesh(cp=2), TWO, replace(DENSE, heads=8, rope=True)),  # heads of width 2
    *(
        Case(Mesh(pp=2), replace(TWO, schedule=one), frozen=("token.*", "position.*", "blocks.[01].*"))
        for one in HALVES
    ),
    Case(Mesh(pp=2, dp=2), replace(TWO, zero=1), frozen=("blocks.[23].*", "norm.*", "head.*")),
    Case(Mesh(), TWO, moe=EXPERTS),
    Case(Mesh(dp=2), TWO, moe=EXPERTS),
    Case(Mesh(dp=2, ep=2), replace(TWO, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=4, ep=2), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, ep=2, etp=1), TWO, moe=EXPERTS),
    Case(Mesh(tp=2, dp=2, ep=2), replace(TWO, sequence_parallel=True), moe=EXPERTS),
    Case(Mesh(tp=2, cp=2, dp=2, ep=4, etp=1), replace(TWO, bias_rate=0.01), replace(DENSE, rope=True), moe=EXPERTS),
    Case(Mesh(pp=2, cp=2, dp=2, ep=2), replace(TWO, schedule=zbv), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mesh_does_what_one_process_does(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


ALL_AXES = Mesh(dp=2, cp=2, tp=2, ep=2)
SHARDED = [
    *(Case(Mesh(dp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, cp=2), replace(TWO, zero=zero, replicas=2)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero)) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, pp=2), replace(TWO, zero=zero, schedule=interleaved), moe=EXPERTS) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=4), replace(TWO, zero=zero, sequence_parallel=True)) for zero in (1, 2, 3)),
    *(Case(ALL_AXES, replace(TWO, zero=zero, bias_rate=0.01), moe=EXPERTS) for zero in (1, 2, 3)),
    Case(Mesh(dp=2, pp=2), replace(TWO, zero=1, schedule=zbv, num_microbatches=4)),
    Case(Mesh(dp=2), replace(TWO, zero=3, schedule=gpipe)),  # weights are gathered again for each backward
]


@pytest.mark.parametrize("case", SHARDED, ids=str)
def test_so_do_slices(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


AGAIN = [
    Case(Mesh(tp=2), replace(TWO, recompute="selective", sequence_parallel=True)),
    Case(Mesh(cp=2, pp=2), replace(TWO, recompute="full"), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", schedule=zb_h1, bias_rate=0.01), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="full", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="stage", zero=3), moe=EXPERTS),
    Case(Mesh(dp=2, pp=2, ep=2), replace(TWO, recompute="selective", zero=2), moe=EXPERTS),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", AGAIN, ids=lambda case: f"{case}-{case.settings.recompute}")
def test_so_does_what_is_computed_again(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert loss < 1e-9 and norm < 1e-9 and weight < 1e-8, (loss, norm, weight)


LOW = Settings(num_microbatches=2, max_norm=0.1, compute_dtype=torch.bfloat16)
FLOAT32: dict[str, Any] = {"dtype": torch.float32, "optimizer": sgd}
LOW_PRECISION = [
    Case(Mesh(dp=2), LOW, **FLOAT32),
    Case(Mesh(tp=2, pp=2), replace(LOW, sequence_parallel=True, schedule=zbv), **FLOAT32),
    *(Case(Mesh(dp=2, cp=2), replace(LOW, zero=zero), **FLOAT32) for zero in (1, 2, 3)),
    *(Case(Mesh(dp=2, tp=2, ep=2), replace(LOW, zero=zero), moe=EXPERTS, **FLOAT32) for zero in (0, 1, 3)),
]


@pytest.mark.parametrize("case", LOW_PRECISION, ids=str)
def test_low_precision_stays_close_to_one_process(case):
    by_rank = shardlab.run(trained, case, ranks=case.mesh.world, timeout=120)
    loss, norm, weight = differences(case, by_rank)
    assert max(loss, norm) > 1e-7 and loss < 0.02 and norm < 0.1 and weight < 0.02, (loss, norm, weight)
    assert {tensor.dtype for *_, chunks in by_rank for *_, kind, _, _, tensor in chunks if kind != "step"} == {
        torch.float32
    }


def sums_of_many_small():
    """512 gradients of 1/1024 of the first: in bfloat16 each would vanish when added to the sum."""
    trainer, _ = started(Case(Mesh(), LOW, **FLOAT32))
    parameter = next(iter(trainer.places))
    assert parameter.dtype == torch.bfloat16
    with trainer.weights[0].passes():
        for size in (1.0, *[1 / 1024] * 512):
            (parameter * size).sum().backward()
    return parameter.grad.flatten()[0].item(), parameter.grad.dtype


def test_main_gradients_add_up_in_float32():
    assert shardlab.run(sums_of_many_small, ranks=1)[0] == (1.5, torch.float32)


def begun(mesh, config, moe):
    """What this rank would save before the first step, and the layers it has built."""
    torch.set_num_threads(1)
    whole, built = LayerByLayer(config, moe, seed=3), []
    block = whole.block
    whole.block = lambda layer: (built.append(layer), block(layer))[1]
    trainer = MeshTrainer(whole, create_process_groups(mesh), sgd, Settings(num_microbatches=2))
    return [(c.key, c.kind, c.global_shape, c.offsets, c.tensor.clone()) for c in chunks_to_save(trainer)], built


@pytest.mark.parametrize("moe", [None, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "apart"])
def test_every_part_is_the_one_of_the_whole_model(moe, tied):
    config = replace(DENSE, tied=tied)
    by_rank = shardlab.run(begun, Mesh(pp=2, tp=2), config, moe, ranks=4, timeout=60)
    assert [built for _, built in by_rank] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    due = {name: one.detach() for name, one in LayerByLayer(config, moe, seed=3).whole().named_parameters()}
    found = put_together([chunks for chunks, _ in by_rank], ["weight"])
    assert {name for name, _ in found} == due.keys()
    assert all(torch.equal(found[name, "weight"], one) for name, one in due.items())


class Poison(Hook):
    """Puts a NaN into one weight's gradient in one backward of one rank."""

    def __init__(self, rank, name):
        self.rank, self.name = rank, name

    def on_step(self, training, step):
        if step == 2 and training.rank == self.rank:
            [part] = training.trainer.parts.values()
            weight = next(one for name, one in part.named_parameters() if name.endswith(self.name))
            handle = weight.register_hook(lambda gradient: (handle.remove(), torch.full_like(gradient, torch.nan))[1])


def blamed(one, rank, name):
    try:
        train(one, hooks=[Poison(rank, name)], quiet=True)
    except NotFinite as error:
        return error.rank, error.name
    return None


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("mesh", [{"dp": 3}, {"pp": 2, "dp": 2}], ids=["dp", "pp-dp"])
def test_who_brought_it_is_named_under_every_stage(zero, mesh):
    one = recipe(mesh, step={"batch": 12, "microbatches": 2, "zero": zero})
    last = math.prod(mesh.values()) - 1
    found = shardlab.run(blamed, one, last, "norm_1.weight", ranks=last + 1, timeout=90, observe=False)
    assert {rank for rank, _ in found} == {last} and all(name.endswith("norm_1.weight") for _, name in found)
