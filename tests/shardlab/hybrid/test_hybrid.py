"""Eight ranks, dp 2, pp 2, tp 2, against one process: gradients, norm, weights of three steps, bytes of each axis."""

from copy import deepcopy
from functools import partial

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from shardlab.costs.axis_traffic import pp_boundary_bytes, tp_layer_bytes
from shardlab.costs.layout import Layout
from shardlab.costs.model_zoo import gpt
from shardlab.costs.traffic import ring_all_reduce_bytes
from shardlab.hybrid import HybridTrainer, StageOfGPT, layers_of, sent_by_axis, whole_norm
from shardlab.mesh import Mesh
from shardlab.mesh.process_groups import create_process_groups
from shardlab.model.gpt import GPT, GPTConfig, next_token_loss
from shardlab.pipeline_parallel.builders import gpipe, one_f_one_b
from shardlab.tensor_parallel.gradients import split_parameters
from torch import nn

CONFIG = GPTConfig(layers=3, hidden=16, heads=4, sequence=6, vocabulary=13, tied=False)
STEPS, MICROBATCHES, ROWS = 3, 2, 4  # rows of one replica
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
MESHES = [Mesh(tp=2, pp=2, dp=2), Mesh(tp=2, pp=2, dp=2, order="dp-pp-tp")]


def new_model(dtype, config=CONFIG):
    torch.manual_seed(11)
    model = GPT(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.to(dtype)


def batch(step, replicas):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(13, (2, replicas * ROWS, 6), generator=generator)


def trained_alone(dtype, replicas, new_optimizer, max_norm):
    """One process on the batches of all replicas: weights, the last gradients, norms, losses."""
    model = new_model(dtype)
    optimizer = new_optimizer(list(model.parameters()))
    norms, losses, gradients = [], [], deepcopy(model)
    for step in range(STEPS):
        tokens, targets = batch(step, replicas)
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm or 1e9).item())
        for kept, parameter in zip(gradients.parameters(), model.parameters(), strict=True):
            kept.data.copy_(parameter.grad)
        optimizer.step()
        losses.append(loss.item())
    return model, gradients, norms, losses


def compared(mesh, dtype, new_optimizer, max_norm, schedule):
    """This rank's largest differences from one process: weights, gradients, norms; and the losses it has seen."""
    torch.set_num_threads(1)
    groups = create_process_groups(mesh)
    replica = mesh.coordinates(dist.get_rank())["dp"]
    trainer = HybridTrainer(
        new_model(dtype), groups, new_optimizer, num_microbatches=MICROBATCHES, max_norm=max_norm, schedule=schedule
    )
    losses, norms = [], []
    for step in range(STEPS):
        tokens, targets = (one.chunk(mesh.dp)[replica] for one in batch(step, mesh.dp))
        losses.append(trainer.step(tokens, targets))
        norms.append(whole_norm(trainer.module.parameters(), split_parameters(trainer.module), groups=groups).item())
    model, gradients, due_norms, due_losses = trained_alone(dtype, mesh.dp, new_optimizer, max_norm)
    weights_due, gradients_due = (
        StageOfGPT(whole, trainer.stage, mesh.pp, tp_group=groups.of("tp")) for whole in (model, gradients)
    )
    mine, due, grads = (list(module.parameters()) for module in (trainer.module, weights_due, gradients_due))
    apart = [
        max((one - other).abs().max().item() for one, other in zip(mine, due, strict=True)),
        max((one.grad - other).abs().max().item() for one, other in zip(mine, grads, strict=True)),
    ]
    clipped = [min(norm, max_norm or 1e9) for norm in due_norms]
    apart.append(max(abs(one / other - 1) for one, other in zip(norms, clipped, strict=True)))
    return apart, losses, due_losses


sgd = partial(torch.optim.SGD, lr=0.5, momentum=0.9)
adam = partial(torch.optim.AdamW, lr=1e-2)


@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: mesh.order)
@pytest.mark.parametrize(
    ("dtype", "new_optimizer", "max_norm", "schedule"),
    [(torch.float64, sgd, 0.3, one_f_one_b), (torch.float32, sgd, None, gpipe), (torch.float64, adam, 0.3, gpipe)],
)
def test_eight_ranks_do_what_one_process_does(mesh, dtype, new_optimizer, max_norm, schedule):
    came = shardlab.run(compared, mesh, dtype, new_optimizer, max_norm, schedule, ranks=8, timeout=120)
    for rank, (apart, losses, _) in enumerate(came):
        assert max(apart[:2]) < TOLERANCE[dtype], (rank, apart)
        assert apart[2] < 1e-5  # torch's own clip divides by norm + 1e-6
        is_last = mesh.coordinates(rank)["pp"] == mesh.pp - 1
        assert all((loss is not None) == is_last for loss in losses)
    last = [losses for rank, (_, losses, _) in enumerate(came) if mesh.coordinates(rank)["pp"] == 1]
    for step in range(STEPS):
        mean = sum(losses[step] for losses in last) / len(last)
        assert mean == pytest.approx(came[0][2][step], rel=TOLERANCE[dtype])


@pytest.mark.parametrize("mesh", [Mesh(tp=4, dp=2), Mesh(tp=2, pp=3), Mesh(dp=3)], ids=["tp4 dp2", "tp2 pp3", "dp3"])
def test_so_do_other_numbers_of_ranks_on_each_axis(mesh):
    came = shardlab.run(compared, mesh, torch.float64, sgd, 0.3, one_f_one_b, ranks=mesh.world, timeout=120)
    assert max(max(apart[:2]) for apart, *_ in came) < TOLERANCE[torch.float64]
    assert max(apart[2] for apart, *_ in came) < 1e-5


def bytes_of_a_step():
    mesh = Mesh(tp=2, pp=2, dp=2)
    groups = create_process_groups(mesh)
    model = new_model(torch.bfloat16, GPTConfig(layers=4, hidden=16, heads=4, sequence=6, vocabulary=13, tied=False))
    trainer = HybridTrainer(model, groups, sgd, num_microbatches=MICROBATCHES, max_norm=1.0)
    tokens, targets = batch(0, 1)
    with meter.record() as bill:
        trainer.step(tokens, targets)
    return sent_by_axis(bill.events, groups), sum(parameter.numel() for parameter in trainer.module.parameters())


def test_the_bytes_of_each_axis_are_the_formulas():
    model = gpt("small", 4, 16, 4, vocab=13, sequence=6)
    layout = Layout(tp=2, pp=2, dp=2, microbatch=ROWS // MICROBATCHES, num_microbatches=MICROBATCHES)
    for sent, num_parameters in shardlab.run(bytes_of_a_step, ranks=8, timeout=60):
        both_ways, layers_each = 2, 2
        assert sent == {
            "tp": both_ways * layers_each * MICROBATCHES * tp_layer_bytes(model, layout),
            "pp": MICROBATCHES * pp_boundary_bytes(model, layout),
            "dp": ring_all_reduce_bytes(2, 2 * num_parameters),
            "tp-pp": ring_all_reduce_bytes(4, 8),  # the norm: one number in float64
        }


def refusals():
    told = []
    groups = create_process_groups(Mesh(tp=2, dp=1))
    small = new_model(torch.float32)
    for make in (
        lambda: HybridTrainer(GPT(GPTConfig(tied=True)), groups, sgd, num_microbatches=2),
        lambda: HybridTrainer(GPT(GPTConfig(tied=False, kv_heads=1)), groups, sgd, num_microbatches=2),
        lambda: HybridTrainer(small, groups, sgd, num_microbatches=3).step(*batch(0, 1)),
    ):
        with pytest.raises(ValueError, match="use") as caught:
            make()
        told.append(str(caught.value))
    return told


def test_what_cannot_be_trained_is_refused():
    tied, shared, rows = shardlab.run(refusals, ranks=2, timeout=30)[0]
    assert shared.startswith("1 key-value heads over tp = 2") and "use a tp among [1]" in shared
    assert "use tied=False" in tied and "4 sequences cannot be cut into 3 microbatches: use 3 sequences" in rows
    with pytest.raises(ValueError, match="use 1 to 3 stages"):
        layers_of(0, 4, 3)
    assert [list(layers_of(stage, 2, 3)) for stage in (0, 1)] == [[0, 1], [2]]
