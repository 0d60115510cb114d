"""Race a block's training step under tensor parallelism: ours, DTensor's `parallelize_module` and Megatron's layers.

Same weights and input, alternating in one process per rank, so that a busy machine slows all of them equally.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import shardlab
import torch
import torch.distributed as dist
from shardlab.model.attention import Attention
from shardlab.model.gpt import Block, GPTConfig
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gpt import block_plan
from shardlab.tensor_parallel.gradients import sum_partial_gradients
from shardlab.tensor_parallel.messages import (
    all_gathered,
    all_reduced,
    own_part,
    reduce_scattered,
    start_all_reduce,
)
from shardlab.tensor_parallel.plan import apply_plan
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from benchmarks.device import wait_for
from benchmarks.row import Row, at_least_times, at_most

LAB = str(Path(__file__).parents[1] / "labs" / "lab02-megatron")
CONFIG = GPTConfig(layers=1, hidden=256, heads=8, sequence=256, flash=False)
BATCH, ROUNDS, WARM_UP = 4, 25, 3
DTENSOR, MEGATRON = 1 / 0.95, 1.0  # our time is at most 0.95 of DTensor's, at most Megatron's


class Contestant(NamedTuple):
    """A split block on this rank: its forward, what its gradients still need, and its parameters."""

    forward: Callable[[Tensor], Tensor]
    finish: Callable[[], None]
    module: nn.Module


def measure() -> list[Row]:
    """Return medians of alternating steps; a step takes as long as on its slowest rank."""
    return rows_of(CONFIG, "cpu", "gloo", "")


def rows_of(config: GPTConfig, device: str, transport: str, where: str) -> list[Row]:
    """Return the rows on 2 and 4 ranks. where: text after the number of ranks in a row's name."""
    rows = []
    for ranks in (2, 4):
        by_rank = shardlab.run(
            race, config, ROUNDS, device, ranks=ranks, transport=transport, observe=False, timeout=600
        )
        seconds = {name: _median_of_slowest([one[name] for one in by_rank]) for name in by_rank[0]}
        for split in ("TP", "SP"):
            name = f"block's step, {split}, {ranks} ranks{where}, s: vs."
            ours = seconds[f"ours, {split}"]
            rows.append(at_least_times(f"{name} DTensor", ours, seconds[f"DTensor, {split}"], DTENSOR))
            rows.append(at_least_times(f"{name} Megatron", ours, seconds[f"Megatron, {split}"], MEGATRON))
        more = seconds["messages, SP"] - seconds["messages, TP"]
        name = f"block's step, SP, {ranks} ranks{where}, s: vs. TP plus the extra time of SP's messages"
        rows.append(at_most(name, seconds["ours, SP"], seconds["ours, TP"] + more))
    return rows


def _median_of_slowest(by_rank: list[list[float]]) -> float:
    return median(max(steps) for steps in zip(*by_rank, strict=True))


def race(config: GPTConfig, rounds: int, device: str) -> dict[str, list[float]]:
    """Return seconds per step by contestant, alternating, in a new order each time; their outputs must be equal."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, LAB)
    torch.manual_seed(0)
    whole = Block(config).to(device)
    contestants = {
        f"{name}, {'SP' if sequence else 'TP'}": build(whole, config, sequence)
        for name, build in (("ours", of_ours), ("DTensor", of_dtensor), ("Megatron", of_megatron(device)))
        for sequence in (False, True)
    }
    steps = {name: _step(one, config) for name, one in contestants.items()}
    steps |= {"messages, TP": messages_of_tp, "messages, SP": messages_of_sp}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(WARM_UP + rounds):
        x = torch.randn(BATCH, config.sequence, config.hidden, generator=torch.Generator().manual_seed(number)).to(
            device
        )
        squares = []
        for name in Random(number).sample(list(steps), len(steps)):  # the same order on every rank
            given = own_part(x, 1, group=None) if name.endswith("SP") else x.clone()
            dist.barrier()
            wait_for(device)
            began = time.perf_counter()
            output = steps[name](given)
            wait_for(device)
            if number >= WARM_UP:
                seconds[name].append(time.perf_counter() - began)
            if name in contestants:
                squares.append(_sum_of_squares(output, split=name.endswith("SP")))
        if max(squares) - min(squares) > 1e-4 * max(squares):
            raise RuntimeError(f"the outputs of step {number} differ: their squares sum to {squares}")
    return seconds


def _step(one: Contestant, config: GPTConfig) -> Callable[[Tensor], Tensor]:
    """Run forward and backward, sum what is still partial, and update."""
    optimizer = torch.optim.SGD(one.module.parameters(), lr=1e-2, foreach=False)  # DTensor and plain ones

    def step(x: Tensor) -> Tensor:
        output = one.forward(x.requires_grad_())
        (output.square().sum() / (BATCH * config.sequence * config.hidden)).backward()
        one.finish()
        optimizer.step()
        optimizer.zero_grad()
        return output.detach()

    return step


def _sum_of_squares(output: Tensor, *, split: bool) -> float:
    total = output.square().sum()
    if split:
        dist.all_reduce(total)
    return total.item()


def messages_of_tp(x: Tensor) -> Tensor:
    """Send only the messages of a block's step: two all-reduces in the forward, two in the backward.

    In place, as the layers send them: a fresh product, and a gradient that no other code needs.
    """
    for _ in range(4):
        x = start_all_reduce(x, group=None)()
    return x


def messages_of_sp(x: Tensor) -> Tensor:
    """Two all-gathers and reduce-scatters forward, two backward, two all-gathers of inputs not kept, a small sum."""
    for _ in range(4):
        x = reduce_scattered(all_gathered(x, 1, group=None), 1, group=None)
    for _ in range(2):
        all_gathered(x, 1, group=None)
    return all_reduced(x.new_zeros(6 * x.shape[-1]), group=None)  # of norms and row biases


def of_ours(whole: Block, config: GPTConfig, sequence: bool) -> Contestant:
    """Apply one of our plans."""
    module = apply_plan(deepcopy(whole), block_plan(config, sequence_parallel=sequence), group=None)
    return Contestant(module, lambda: sum_partial_gradients(module, group=None), module)


def of_dtensor(whole: Block, config: GPTConfig, sequence: bool) -> Contestant:
    """Build the same block with each linear layer as a DTensor."""
    size, module = dist.get_world_size(), deepcopy(whole)
    lay_out_by_rank(module.attention, size)
    between = Shard(1) if sequence else Replicate()
    plan = {
        "attention.qkv": ColwiseParallel(input_layouts=between),
        "attention.out": RowwiseParallel(output_layouts=between),
        "up": ColwiseParallel(input_layouts=between),
        "down": RowwiseParallel(output_layouts=between),
    }
    if sequence:
        plan |= {"norm_1": SequenceParallel(use_local_output=True), "norm_2": SequenceParallel(use_local_output=True)}
    parallelize_module(module, init_device_mesh(whole.norm_1.weight.device.type, (size,)), plan)
    return Contestant(module, lambda: None, module)


@torch.no_grad()
def lay_out_by_rank(attention: Attention, size: int) -> None:
    """Reorder qkv's rows for `ColwiseParallel`, which splits them as they are stored.

    First come one rank's queries, keys and values, then the next one's: each rank's are contiguous, as in ours.
    """
    rows = Cut(attention.sections, units=(attention.heads, attention.kv_heads, attention.kv_heads))
    for parameter in attention.qkv.parameters():
        parameter.copy_(torch.cat([rows.part(parameter, rank, size) for rank in range(size)]))
    attention.heads, attention.kv_heads = attention.heads // size, attention.kv_heads // size


def of_megatron(device: str) -> Callable[[Block, GPTConfig, bool], Contestant]:
    """Build Megatron's TransformerBlock with one layer; its activations are [S, B, H]."""
    import megatron_models
    from on_cpu import megatron_on

    megatron_on(device, dist.get_world_size())

    def build(whole: Block, config: GPTConfig, sequence: bool) -> Contestant:
        settings = megatron_models.megatron_config(config, sequence_parallel=sequence, recompute="none")
        module, model = megatron_models.Blocks(settings), nn.Module()
        model.blocks = nn.ModuleList([whole])
        megatron_models.take_weights(module, model, config)
        module.to(device)
        return Contestant(
            lambda x: module(x.transpose(0, 1).contiguous()).transpose(0, 1),
            lambda: megatron_models.finish_gradients(module, settings),
            module,
        )

    return build
