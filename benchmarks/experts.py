"""Race expert parallelism against plain all-to-alls, Megatron's MoE layer and torchtitan's token dispatcher, on gloo.

Same weights and tokens, alternating in one process per rank, so that a busy machine slows all of them equally.
torchtitan is measured if it can be imported: `pip install --no-deps torchtitan==0.3.0 spmd_types==0.3.1 triton tyro
docstring-parser typeguard`, which does not change the installed torch.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Literal, NamedTuple

import shardlab
import torch
import torch.distributed as dist
from shardlab.expert_parallel.dispatch import agree, combined, dispatched
from shardlab.expert_parallel.emulated import SlowLink
from shardlab.expert_parallel.layer import Nodes, ParallelMoE, Splits
from shardlab.expert_parallel.messages import Travel, all_to_all
from shardlab.model.moe import MoE, MoEConfig
from shardlab.model.permutation import rows_by_expert
from shardlab.model.router import Choice, load_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from benchmarks.device import wait_for
from benchmarks.row import Row, at_least_times

LAB = str(Path(__file__).parents[1] / "labs" / "lab02-megatron")
TORCHTITAN = "torchtitan"
MESSAGES, COPIED = "two all-to-alls", "two all-to-alls and two copies"
CONFIG = MoEConfig(256, 256, Choice(8, 2, renormalise=True))
ROUNDS, WARM_UP = 25, 3
NODES = MoEConfig(256, 64, Choice(16, 4, groups=2, groups_per_token=1))  # k = 4 experts of one node
SLOW_LINK = 50e6  # bytes per second
EXCHANGE, MEGATRON, TITAN = 1 / 1.2, 1 / 0.9, 1.0  # our time is at most 1.2 of the messages', 0.9 of Megatron's, ...
TWO_LEVELS = 1.0  # faster
Step = Callable[[Tensor], Tensor]


class Shape(NamedTuple):
    """The layer, the number of tokens per rank, and the device; hidden: widths for dispatch and combine alone."""

    layer: MoEConfig = CONFIG
    tokens: int = 1024
    hidden: tuple[int, int] = (256, 2048)
    device: str = "cpu"


class Taken(NamedTuple):
    """The cost of a step on this rank; CPU seconds are summed over all its threads."""

    seconds: float
    cpu_seconds: float


def measure() -> list[Row]:
    """Return medians of alternating steps: wall seconds of the slowest rank, CPU seconds summed over all ranks."""
    rows = [row for ranks in (2, 4, 8) for row in rows_of(Shape(), ranks, "gloo", units=("s", "CPU s"))]
    levels = _by_name(level_race, Shape(NODES), 4, "gloo")
    name = "layer's step over a slow link, two nodes of 2 ranks"
    return rows + _rows(name, levels, [("one level", TWO_LEVELS)], units=("s",))


def rows_of(shape: Shape, ranks: int, transport: str, *, units: tuple[str, ...]) -> list[Row]:
    """Compare dispatch and combine with the messages alone, and a layer with its peers."""
    rows, choice = [], shape.layer.choice
    for hidden in shape.hidden:
        one = shape._replace(layer=replace(shape.layer, hidden=hidden))
        name = f"dispatch and combine, {shape.tokens * choice.k * hidden * 4 / 2**20:g} MiB, {ranks} ranks"
        peers = [(plain, EXCHANGE) for plain in (MESSAGES, COPIED)]
        rows += _rows(name, _by_name(exchange_race, one, ranks, transport), peers, units)
    layers = _by_name(layer_race, shape, ranks, transport)
    peers = [("Megatron, alltoall", MEGATRON), ("Megatron, allgather", MEGATRON), (TORCHTITAN, TITAN)]
    return rows + _rows(f"layer's step, {ranks} ranks", layers, [one for one in peers if one[0] in layers], units)


def _rows(name: str, taken: dict[str, Taken], peers: list[tuple[str, float]], units: tuple[str, ...]) -> list[Row]:
    return [
        at_least_times(f"{name}, {unit}: vs. {peer}", taken["ours"][which], taken[peer][which], times)
        for peer, times in peers
        for which, unit in enumerate(units)
    ]


def _by_name(race: Callable, shape: Shape, ranks: int, transport: str) -> dict[str, Taken]:
    by_rank = shardlab.run(race, shape, ROUNDS, ranks=ranks, transport=transport, observe=False, timeout=900)
    found = {}
    for name in by_rank[0]:
        steps = list(zip(*(one[name] for one in by_rank), strict=True))
        wall = median(max(each[0] for each in step) for step in steps)
        found[name] = Taken(wall, median(sum(each[1] for each in step) for step in steps))
    return found


# ---- in each rank ---------------------------------------------------------------------------------------------------


def exchange_race(shape: Shape, rounds: int) -> dict[str, list[Taken]]:
    """Send tokens to the ranks of their experts and back, vs. two plain all-to-alls of the same rows; no gradients.

    Rows must be sorted by rank before they are sent, and by token when they are back, so a dispatcher writes each row
    two more times than the messages alone. The second peer does exactly that, with plain copies.
    """
    torch.set_num_threads(1)
    config = shape.layer
    layer = ParallelMoE(_whole(shape), Splits(None))
    x_TH = _batch(shape, 0)
    routing, _ = layer.router(x_TH)

    def ours(x_TH: Tensor) -> Tensor:
        rows = rows_by_expert(routing.experts_TK, config.choice.experts)
        exchange = agree(rows, group=None, has_gradient=False)
        return combined(dispatched(x_TH, exchange), routing.weights_TK, exchange)

    exchange = agree(rows_by_expert(routing.experts_TK, config.choice.experts), group=None, has_gradient=False)
    x_RH = x_TH.repeat(config.choice.k, 1)

    def plain(_: Tensor) -> Tensor:
        y_AH = all_to_all(x_RH, exchange.sent, exchange.received, group=None, agreed=True)
        return all_to_all(y_AH, exchange.received, exchange.sent, group=None, agreed=True)

    def copied(_: Tensor) -> Tensor:
        y_AH = all_to_all(x_RH.clone(), exchange.sent, exchange.received, group=None, agreed=True)
        return all_to_all(y_AH, exchange.received, exchange.sent, group=None, agreed=True).clone()

    steps = {"ours": ours, MESSAGES: plain, COPIED: copied}
    with torch.no_grad():
        return _in_turn(steps, lambda _: x_TH, rounds, shape.device, same=False)


def level_race(shape: Shape, rounds: int) -> dict[str, list[Taken]]:
    """Run forward and backward of a layer on two nodes joined by a slow link, in one level and in two."""
    torch.set_num_threads(1)
    pairs = [[0, 2], [1, 3]], [[0, 1], [2, 3]]
    groups: list[Any] = [dist.new_subgroups_by_enumeration(lists)[0] for lists in pairs]
    steps = {}
    for name, nodes in (("one level", None), ("ours", Nodes(groups[0], groups[1]))):
        travel = Travel(SlowLink(ranks_per_node=2, bytes_per_second=SLOW_LINK))
        layer = ParallelMoE(_whole(shape), Splits(None, nodes=nodes, travel=travel))
        steps[name] = _step(layer, layer)
    return _in_turn(steps, lambda number: _batch(shape, number), rounds, shape.device, same=True)


def layer_race(shape: Shape, rounds: int) -> dict[str, list[Taken]]:
    """Run forward and backward of a whole layer; the outputs must be equal."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, LAB)
    from on_cpu import megatron_on

    megatron_on(shape.device, 1)
    ours = ParallelMoE(_whole(shape), Splits(None))
    layers: dict[str, tuple[nn.Module, Step]] = {"ours": (ours, ours)}
    layers["Megatron, alltoall"] = of_megatron("alltoall", ours, shape)
    layers["Megatron, allgather"] = of_megatron("allgather", ours, shape)
    if find_spec(TORCHTITAN):
        layers[TORCHTITAN] = of_torchtitan(shape)

    steps = {name: _step(*layer) for name, layer in layers.items()}
    return _in_turn(steps, lambda number: _batch(shape, number), rounds, shape.device, same=True)


def _step(module: nn.Module, forward: Step) -> Step:
    def step(x_TH: Tensor) -> Tensor:
        module.zero_grad()
        output = forward(x_TH.requires_grad_())
        output.square().sum().backward()
        return output.detach()

    return step


def _in_turn(
    steps: dict[str, Step], batch: Callable[[int], Tensor], rounds: int, device: str, *, same: bool
) -> dict[str, list[Taken]]:
    """Return the cost of each step, alternating, in a new order each time. Raises RuntimeError if outputs that should
    be equal differ.
    """
    taken: dict[str, list[Taken]] = {name: [] for name in steps}
    for number in range(WARM_UP + rounds):
        outputs = []
        for name in Random(number).sample(list(steps), len(steps)):  # the same order on every rank
            given = batch(number).clone()
            dist.barrier()
            wait_for(device)
            began, cpu = time.perf_counter(), time.process_time()
            outputs.append(steps[name](given))
            wait_for(device)
            if number >= WARM_UP:
                taken[name].append(Taken(time.perf_counter() - began, time.process_time() - cpu))
        if same and any((one - outputs[0]).abs().max() > 1e-4 * outputs[0].abs().max() for one in outputs):
            raise RuntimeError(f"the outputs of step {number} differ")
    return taken


def _whole(shape: Shape) -> MoE:
    torch.manual_seed(0)
    whole = MoE(shape.layer)
    for one in whole.parameters():
        nn.init.normal_(one, std=0.1)
    return whole.to(shape.device)


def _batch(shape: Shape, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * number + dist.get_rank())
    return torch.randn(shape.tokens, shape.layer.hidden, generator=generator).to(shape.device)


def of_megatron(
    dispatcher: Literal["alltoall", "allgather"], ours: ParallelMoE, shape: Shape
) -> tuple[nn.Module, Step]:
    """Build Megatron's layer, which takes [S, B, H]; its experts run in a loop, as ours do."""
    from megatron_experts import megatron_layer, take_expert_weights

    config = shape.layer
    sizes = {"hidden": config.hidden, "width": config.width, "experts": config.choice.experts}
    theirs = megatron_layer(dispatcher, **sizes, moe_router_topk=config.choice.k)
    take_expert_weights(theirs, ours)
    theirs.to(shape.device)
    return theirs, lambda x_TH: theirs(x_TH.unsqueeze(1))[0].squeeze(1)


def of_torchtitan(shape: Shape) -> tuple[nn.Module, Step]:
    """Wrap our router and experts around torchtitan's dispatcher, which returns rows by expert."""
    import torchtitan.models.common.token_dispatcher as module  # type: ignore[import-not-found]

    module.get_spmd_backend = lambda: "dtensor"  # the other backend needs the trainer's whole mesh
    choice = shape.layer.choice
    theirs: Any = module.AllToAllTokenDispatcher(
        module.AllToAllTokenDispatcher.Config(num_experts=choice.experts, top_k=choice.k)
    )
    theirs.wire_meshes(ep_mesh=init_device_mesh(shape.device, (dist.get_world_size(),), mesh_dim_names=("ep",)))
    layer = ParallelMoE(_whole(shape), Splits(None))

    def forward(x_TH: Tensor) -> Tensor:
        routing, _ = layer.router(x_TH)
        counts_E = load_of(routing.experts_TK, choice.experts)
        x_AH, sizes, way = theirs.dispatch(x_TH, routing.weights_TK, routing.experts_TK, counts_E)
        return theirs.combine(layer.experts(x_AH, sizes.tolist()), way, x_TH)

    return layer, forward
