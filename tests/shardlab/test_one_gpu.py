"""All ranks on one GPU: collectives, pipelines and data parallelism over NCCL match one process."""

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab.data_parallel.ddp import DataParallel
from shardlab.data_parallel.zero import Zero1, Zero2, Zero3
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.execution import execute
from shardlab.pipeline_parallel.schedule import num_stages, stages_of_rank
from shardlab.pipeline_parallel.stages import ModuleStage
from shardlab.ranks.transports import NCCL_SHARED, choose_transport
from torch import nn

from tests.shardlab.data_parallel import twin

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(choose_transport(4) != NCCL_SHARED, reason="needs one GPU and NCCL 2.30 or newer"),
]
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


def trained(name):
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


@pytest.mark.parametrize("name", ENGINES)
def test_data_parallelism_gives_the_weights_of_one_process(name):
    alone, _ = twin.trained_alone(4, **OPTIONS)
    for weights in shardlab.run(trained, name, ranks=4, timeout=100):
        assert twin.largest_difference(weights, alone) < 1e-10  # float64; a GPU sums in another order
