"""Several ranks on one GPU."""

from dataclasses import replace

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel import Gathered, Ulysses, contiguous
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from shardlab.hybrid import Settings
from shardlab.mesh import Mesh
from shardlab.pipeline_parallel.builders import BUILDERS, dualpipe_v, interleaved, zbv
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.ranks.transports import NCCL_SHARED, choose_transport
from torch import nn

from tests.shardlab.data_parallel import twin
from tests.shardlab.hybrid.five_axes import DENSE, EXPERTS, Case, differences, sgd, trained

# ---- All ranks on one GPU: collectives, pipelines and data parallelism over NCCL match one process. ------------------

ENGINES = {"ddp": DataParallel, "zero1": Zero1, "zero2": Zero2, "zero3": Zero3}
OPTIONS = {"lr": 0.05, "weight_decay": 0.1}
WIDTH, ROWS, MICROBATCHES = 8, 4, 8


def collectives():
    rank, size = dist.get_rank(), dist.get_world_size()
    own = torch.full((size,), float(rank), device="cuda")
    whole = own.clone()
    dist.all_reduce(whole)
    dist.send(own, (rank + 1) % size) if rank % 2 == 0 else dist.recv(own, (rank - 1) % size)
    return whole.tolist(), own.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer")
def test_collectives_and_messages():
    results = shardlab.run(collectives, ranks=4, timeout=60)
    assert [whole for whole, _ in results] == [[6.0] * 4] * 4
    assert [own for _, own in results] == [[0.0] * 4, [0.0] * 4, [2.0] * 4, [2.0] * 4]


def layer(stage):
    torch.manual_seed(stage)
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)).double()


def batches():
    torch.manual_seed(7)
    return list(torch.randn(MICROBATCHES, ROWS, WIDTH, dtype=torch.float64))


def loss(output, _):
    return output.square().mean()


def pipelines(names):
    """This rank's gradients, by schedule and stage."""
    found = {}
    inputs = [batch.cuda() for batch in batches()]
    for name in names:
        schedule = BUILDERS[name](4, MICROBATCHES)
        last = num_stages(schedule) - 1
        stages = {
            stage: ModuleStage(
                layer(stage).cuda(),
                inputs=inputs if stage == 0 else None,
                input_like=None if stage == 0 else inputs[0],
                loss=loss if stage == last else None,
                loss_weight=1 / MICROBATCHES,
            )
            for stage in stages_of_rank(schedule, dist.get_rank())
        }
        for _ in range(2):  # in the second step, connections already exist
            for stage in stages.values():
                stage.module.zero_grad()
            execute(schedule, stages, group=None)
        found[name] = {number: [p.grad.cpu() for p in one.module.parameters()] for number, one in stages.items()}
    return found


@pytest.mark.gpu
@pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer")
def test_every_schedule_gives_the_gradients_of_one_process():
    results = shardlab.run(pipelines, list(BUILDERS), ranks=4, timeout=150)
    for name, builder in BUILDERS.items():
        layers = [layer(stage) for stage in range(num_stages(builder(4, MICROBATCHES)))]
        whole = nn.Sequential(*layers)
        (sum(loss(whole(batch), None) for batch in batches()) / MICROBATCHES).backward()
        for stages in results:
            for number, gradients in stages[name].items():
                for parameter, gradient in zip(layers[number].parameters(), gradients, strict=True):
                    torch.testing.assert_close(gradient, parameter.grad, rtol=1e-10, atol=1e-12)


def trained_one_gpu(name):
    rank, size = dist.get_rank(), dist.get_world_size()
    model = twin.new_model().cuda()
    wrapped, zero = model, None
    if name == "ddp":
        wrapped = DataParallel(model)
        optimizer = torch.optim.AdamW(wrapped.parameters(), **OPTIONS)
    else:
        more = {"units": list(model.blocks)} if name == "zero3" else {}
        optimizer = zero = ENGINES[name](model, torch.optim.AdamW, **more, **OPTIONS)
    for step in range(twin.STEPS):
        optimizer.zero_grad()
        tokens, targets = (twin.own_part(tensor, rank, size).cuda() for tensor in twin.batch(step, size))
        twin.loss_of(wrapped, tokens, targets).backward()
        optimizer.step()
    full = zero.full_parameters() if zero is not None else dict(model.named_parameters())
    return {key: value.detach().cpu() for key, value in full.items()}


@pytest.mark.gpu
@pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer")
@pytest.mark.parametrize("name", ENGINES)
def test_data_parallelism_gives_the_weights_of_one_process(name):
    alone, _ = twin.trained_alone(4, **OPTIONS)
    for weights in shardlab.run(trained_one_gpu, name, ranks=4, timeout=100):
        assert twin.largest_difference(weights, alone) < 1e-10  # float64; a GPU sums in another order


# ---- All axes on ranks that share one GPU: over NCCL too, a mesh matches one process on a CPU. -----------------------

TWO = Settings(num_microbatches=2, max_norm=0.1)
CASES = {  # each line is one call of four ranks, because creating a CUDA context takes seconds
    "tensor": [
        Case(Mesh(tp=4), TWO),
        Case(Mesh(tp=4), replace(TWO, sequence_parallel=True), optimizer=sgd),
        Case(Mesh(tp=2, dp=2), replace(TWO, recompute="selective", sequence_parallel=True)),
    ],
    "context": [
        Case(Mesh(cp=4), TWO),
        Case(Mesh(cp=2, dp=2), replace(TWO, context=Ulysses(), layout=contiguous)),
        Case(Mesh(cp=2, tp=2), replace(TWO, context=Gathered(), sequence_parallel=True), replace(DENSE, rope=True)),
    ],
    "experts": [
        Case(Mesh(dp=4, ep=2), TWO, moe=EXPERTS),
        Case(Mesh(dp=4, ep=4), replace(TWO, bias_rate=0.01), moe=EXPERTS),
        Case(Mesh(tp=2, dp=2, ep=2, etp=1), replace(TWO, sequence_parallel=True), moe=EXPERTS),
    ],
    "pipelines": [
        Case(Mesh(pp=2, dp=2), replace(TWO, zero=1, schedule=interleaved)),
        Case(Mesh(pp=2, cp=2), replace(TWO, schedule=dualpipe_v, num_microbatches=4)),
        Case(Mesh(pp=2, dp=2, ep=2), replace(TWO, schedule=zbv, bias_rate=0.01), moe=EXPERTS),
    ],
    "slices": [
        *(Case(Mesh(dp=2, cp=2), replace(TWO, zero=zero, replicas=2)) for zero in (1, 2, 3)),
        Case(Mesh(dp=2, tp=2, ep=2), replace(TWO, zero=3), moe=EXPERTS),
    ],
}


def all_trained(cases):
    return [trained(case, "cuda") for case in cases]


@pytest.mark.gpu
@pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer")
@pytest.mark.parametrize("name", CASES)
def test_a_mesh_does_what_one_process_does(name):
    by_rank = shardlab.run(all_trained, CASES[name], ranks=4, transport=NCCL_SHARED, timeout=120)
    for case, of_case in zip(CASES[name], zip(*by_rank, strict=True), strict=True):
        loss, norm, weight = differences(case, of_case)
        assert loss < 1e-9 and norm < 1e-9, (str(case), loss, norm)
        # Adam normalizes gradients, so a gradient that is only noise, as for a key's bias, moves a weight by noise
        assert weight < 1e-6, (str(case), weight)
