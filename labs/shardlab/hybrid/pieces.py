"""A rank's part of the model and its optimizer, as blocks of whole tensors with global names, for checkpoints.

    for chunk in chunks_to_save(trainer): ...      # every element of every whole tensor comes from exactly one rank
    for chunk in chunks_to_load(trainer): ...      # all that this rank needs; copy values into chunk.tensor in place
    after_load(trainer)                            # on every rank, once all chunks are filled

`SavedShard.tensor` is a view of the trainer's own memory: saving copies nothing, loading writes in place, and nothing
is gathered. A shard is a block `offsets : offsets + tensor.shape` of a tensor of `global_shape`, whose name in the
whole model is `key` ("blocks.7.up.weight"; a tied head is "token.weight"). `kind` says which tensor of that name:
"weight" (the master, float32 under bfloat16), "buffer", or one of the optimizer's states, with torch's names:
"exp_avg", "exp_avg_sq", "momentum_buffer", ..., and "step", a scalar for each key, of shape [].

The set of (key, kind, global_shape) does not depend on the mesh, the schedule or the ZeRO stage. Loading on another
mesh reads different blocks of the same tensors. Before the first step, `chunks_to_load` creates the states as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.hybrid.groups import STAGE
from shardlab.hybrid.mesh_trainer import MeshTrainer
from shardlab.hybrid.places import fragments, whole_place
from shardlab.hybrid.sums import Owned
from shardlab.hybrid.weights import flat
from shardlab.mesh.process_groups import GRADIENTS

Shape = tuple[int, ...]


class SavedShard(NamedTuple):
    """A block of the tensor (`key`, `kind`): its offsets in the whole tensor, and this rank's memory that holds it."""

    key: str
    kind: str
    global_shape: Shape
    offsets: Shape
    tensor: Tensor


def chunks_to_save(trainer: MeshTrainer) -> list[SavedShard]:
    """The chunks this rank writes. All ranks together write every element once. Nothing is sent."""
    chunks = []
    for one in trainer.owned:
        if one.place.is_twin:
            continue
        total = one.weights.copies
        for block in one.fragments:
            turn = one.place.number % (block.copies * total)  # copies take turns writing, parameter by parameter
            if turn == block.copy + block.copies * one.weights.copy:
                chunks += [
                    SavedShard(one.place.name, kind, one.place.shape, block.offsets, block.of(flat(tensor)))
                    for kind, tensor in _tensors(trainer, one)
                ]
            if turn == block.copy + block.copies * one.weights.copy and not any(block.offsets):
                chunks += _scalars(trainer, one)
    return chunks + [chunk for chunk, is_mine in [*_frozen(trainer), *_buffers(trainer)] if is_mine]


def chunks_to_load(trainer: MeshTrainer) -> list[SavedShard]:
    """The chunks this rank reads: every block it holds, no matter which rank wrote it."""
    for weights in trainer.weights:
        begin_states(weights.optimizer)
    chunks, seen = [], set()
    for one in trainer.owned:
        for block in one.fragments:
            chunks += [
                SavedShard(one.place.name, kind, one.place.shape, block.offsets, block.of(flat(tensor)))
                for kind, tensor in _tensors(trainer, one)
            ]
        if one.slice.master not in seen:  # a master of many parameters has a single step count
            seen.add(one.slice.master)
            chunks += _scalars(trainer, one)
    return chunks + [chunk for chunk, _ in [*_frozen(trainer), *_buffers(trainer)]]


def after_load(trainer: MeshTrainer) -> None:
    """Copy the loaded masters into the model. Every rank must call it, because ZeRO gathers weights here."""
    for weights in trainer.weights:
        weights.publish()


@torch.no_grad()
def begin_states(optimizer: torch.optim.Optimizer) -> None:
    """Create the states that a first step would create, as zeros. A trial step on one number shows which they are."""
    for group in optimizer.param_groups:
        missing = [one for one in group["params"] if not optimizer.state.get(one)]
        if not missing:
            continue
        probe = nn.Parameter(torch.zeros(1))
        probe.grad = torch.zeros(1)
        options = {name: value for name, value in group.items() if name != "params"}
        make = cast(Callable[..., torch.optim.Optimizer], type(optimizer))  # each class has its own defaults
        trial = make([{"params": [probe]} | options])
        trial.step()
        for one in missing:
            for name, value in trial.state[probe].items():
                if isinstance(value, Tensor):
                    optimizer.state[one][name] = torch.zeros_like(one) if value.dim() else torch.zeros_like(value)


def _tensors(trainer: MeshTrainer, one: Owned) -> Iterator[tuple[str, Tensor]]:
    """The master and the optimizer states that have its shape."""
    master = one.slice.master
    yield "weight", master.detach()
    for name, value in one.weights.optimizer.state.get(master, {}).items():
        if isinstance(value, Tensor) and value.shape == master.shape:
            yield name, value


def _scalars(trainer: MeshTrainer, one: Owned) -> list[SavedShard]:
    state = one.weights.optimizer.state.get(one.slice.master, {})
    return [
        SavedShard(one.place.name, name, (), (), value)
        for name, value in state.items()
        if isinstance(value, Tensor) and value.dim() == 0 and value.shape != one.slice.master.shape
    ]


def _frozen(trainer: MeshTrainer) -> Iterator[tuple[SavedShard, bool]]:
    """Frozen weights, which every rank of dp and cp holds, each with a flag: does this rank write it?"""
    for one, place in trainer.places.items():
        if one.requires_grad:
            continue
        sharers = trainer.groups.of(*(("edp",) if place.is_expert else GRADIENTS))
        size, rank = dist.get_world_size(sharers), dist.get_rank(sharers)
        for block in fragments(place, one.shape, 0, one.numel()):
            is_mine = place.number % (block.copies * size) == block.copy + block.copies * rank
            chunk = SavedShard(place.name, "weight", place.shape, block.offsets, block.of(flat(one)))
            yield chunk, is_mine and not place.is_twin


def _buffers(trainer: MeshTrainer) -> Iterator[tuple[SavedShard, bool]]:
    """Buffers. They are the same on all ranks of a stage, and the first rank writes them."""
    group = trainer.groups.of(*STAGE) if any(place.is_expert for place in trainer.places.values()) else None
    for part in trainer.parts.values():
        for name, value in part.named_buffers():
            place = whole_place(name, value.shape, 0, copies=1, copy=0)
            chunk = SavedShard(name, "buffer", place.shape, (0,) * value.dim(), value)
            yield chunk, group is not None and dist.get_rank(group) == 0
