"""The meter agrees with torch's own counts: CommDebugMode's collectives, including those of DTensor and FSDP2."""

from collections import Counter
from functools import lru_cache

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import meter
from torch import nn

WIDTH = 8


def kind_of(operator):
    """Our kind for an operator counted by CommDebugMode. Several operators map to one kind."""
    name = operator._schema.name.split("::")[1].strip("_") if hasattr(operator, "_schema") else str(operator)
    for part, kind in (
        ("reduce_scatter", "reduce_scatter"),
        ("allgather", "all_gather"),
        ("all_gather", "all_gather"),
        ("allreduce", "all_reduce"),
        ("all_reduce", "all_reduce"),
        ("alltoall", "all_to_all"),
        ("all_to_all", "all_to_all"),
        ("broadcast", "broadcast"),
    ):
        if part in name:
            return kind
    raise AssertionError(f"{name} is not known here")


def counted(function):
    """How often each kind was called, as counted by torch and by the meter."""
    from torch.distributed.tensor.debug import CommDebugMode

    with meter.record() as bill, CommDebugMode() as theirs:
        function()
    totals = Counter()
    for operator, count in theirs.get_comm_counts().items():
        totals[kind_of(operator)] += count
    return dict(totals), dict(Counter(bill.kinds)), bill


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def plain_collectives():
    tensor = torch.ones(4)
    parts = [torch.empty(2), torch.empty(2)]

    def call():
        dist.all_reduce(tensor)
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 0)
        dist.all_gather(parts, torch.ones(2))
        dist.reduce_scatter_tensor(torch.empty(2), tensor)

    return call


def fsdp():
    from torch.distributed.fsdp import fully_shard

    whole = model()
    for layer in (whole[0], whole[2], whole):
        fully_shard(layer)
    return lambda: whole(torch.ones(2, WIDTH)).sum().backward()


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    split = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return lambda: split(torch.ones(2, WIDTH)).sum().backward()


def redistributed():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensor = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    return lambda: (tensor @ tensor).redistribute(placements=[Replicate()]).to_local().sum().item()


def functional():
    from torch.distributed import _functional_collectives as collectives

    whole, part, world = torch.ones(WIDTH), torch.ones(WIDTH // 2), dist.group.WORLD

    def call():
        collectives.all_reduce(whole, "sum", world).sum()
        collectives.all_gather_tensor(part, 0, world).sum()
        collectives.reduce_scatter_tensor(whole, "sum", 0, world).sum()
        collectives.all_to_all_single(whole, None, None, world).sum()

    return call


def ddp():
    from torch.nn.parallel import DistributedDataParallel

    replica = DistributedDataParallel(model())
    with meter.record() as bill:
        replica(torch.ones(2, WIDTH)).sum().backward()
    with meter.record() as unsynchronised, replica.no_sync():
        replica(torch.ones(2, WIDTH)).sum().backward()
    return bill, unsynchronised


def held_by_a_shard():
    from torch.distributed.fsdp import fully_shard

    layer = nn.Linear(WIDTH, WIDTH)
    fully_shard(layer)
    adam = torch.optim.Adam(layer.parameters())
    layer(torch.ones(2, WIDTH)).sum().backward()
    adam.step()
    return meter.bytes_held(layer, adam)


CASES = [plain_collectives, functional, fsdp, tensor_parallel, redistributed]


def count_all():
    return {make.__name__: counted(make()) for make in CASES} | {"ddp": ddp(), "held": held_by_a_shard()}


@lru_cache
def on_ranks():
    return shardlab.run(count_all, ranks=2, transport="gloo", timeout=60)


@pytest.mark.parametrize("name", [make.__name__ for make in CASES])
def test_the_same_number_of_every_kind(name):
    for answers in on_ranks():
        theirs, ours, _ = answers[name]
        assert theirs, "nothing was counted"
        assert ours == theirs


@pytest.mark.parametrize("name", ["functional", "redistributed", "tensor_parallel"])
def test_calls_inside_tensors_have_payload_place_and_end(name):
    for event in on_ranks()[0][name][2].events:
        assert event.payload_bytes == {"functional": 4 * WIDTH, "redistributed": 64, "tensor_parallel": 8 * WIDTH}[name]
        assert "of test_torch_agrees.py" in event.where
        assert event.begin <= event.end


def test_the_bytes_of_fully_sharded_layers():
    bill = on_ranks()[0]["fsdp"][2]
    layer = 4 * (WIDTH * WIDTH + WIDTH)  # bytes of one layer's weight and bias
    gathers = [event.payload_bytes for event in bill.events if event.kind == "all_gather"]
    scatters = [event.payload_bytes for event in bill.events if event.kind == "reduce_scatter"]
    assert set(gathers) == {layer}
    assert scatters == [layer, layer]
    assert bill.sent_bytes == sum(gathers) / 2 + sum(scatters) / 2
    assert all(event.end is not None for event in bill.events)


def test_the_gradients_of_ddp():
    num_bytes = sum(4 * p.numel() for p in model().parameters())
    for answers in on_ranks():
        bill, unsynchronised = answers["ddp"]
        assert sum(event.payload_bytes for event in bill.events if event.kind == "all_reduce") == num_bytes
        assert bill.sent_bytes == num_bytes  # 2 (N-1)/N of the gradients, N = 2
        assert unsynchronised.count("all_reduce") == 0


def test_a_sharded_layer_holds_its_part():
    layer = 4 * (WIDTH * WIDTH + WIDTH)
    for answers in on_ranks():
        held = answers["held"]
        assert (held.parameters, held.gradients) == (layer // 2, layer // 2)
        assert held.optimizer_state == layer + 8  # two moments of a half, and a step count for each of two parameters
