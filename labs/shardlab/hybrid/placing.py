"""The places of a stage's parameters, derived from how tensor_parallel and expert_parallel split them."""

from __future__ import annotations

import torch.distributed as dist
from torch import nn

from shardlab.expert_parallel.layer import ParallelMoE
from shardlab.hybrid.part import PartOfModel
from shardlab.hybrid.places import ParameterPlace, ShardBlock, whole_place
from shardlab.mesh.process_groups import ProcessGroups
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.gradients import cuts_of

TIED = "token.weight"  # the name of a weight that is both embedding and head


def places_of(part: PartOfModel, groups: ProcessGroups, *, has_twin: bool) -> dict[nn.Parameter, ParameterPlace]:
    """The place of every parameter of a stage. has_twin: its head is tied to an embedding on another rank."""
    cuts, experts = cuts_of(part), _experts(part)
    rank, size = dist.get_rank(groups.of("tp")), dist.get_world_size(groups.of("tp"))
    found: dict[nn.Parameter, ParameterPlace] = {}
    for number, (name, one) in enumerate(part.named_parameters()):
        shape = tuple(one.shape)
        if one in experts:
            found[one] = expert_place(name, shape, number, sections=experts[one], groups=groups)
        elif name in cuts:
            found[one] = cut_place(name, shape, number, cut=cuts[name], rank=rank, size=size)
        else:
            found[one] = whole_place(name, shape, number, copies=size, copy=rank)
        if name == "head.weight" and has_twin:
            found[one] = ParameterPlace(TIED, found[one].shape, found[one].boxes, number, is_twin=True)
    return found


def cut_place(name: str, shape: tuple[int, ...], number: int, *, cut: Cut, rank: int, size: int) -> ParameterPlace:
    """The place of tp rank `rank`'s part of a parameter: one box per section. Padding is in no box."""
    dim = cut.dim % len(shape)
    boxes, local, section_begin = [], 0, 0
    for index, section in enumerate(cut.sections):
        length, copies = cut.shard(index, size)
        offset = rank // copies * length
        real = max(0, min(length, section - offset))
        begins, ends = [0] * len(shape), [0] * len(shape)
        begins[dim], ends[dim] = local, section_begin + offset
        sizes = (*shape[:dim], real, *shape[dim + 1 :])
        boxes.append(ShardBlock(tuple(begins), sizes, tuple(ends), copies, rank % copies))
        local, section_begin = local + length, section_begin + section
    whole = (*shape[:dim], sum(cut.sections), *shape[dim + 1 :])
    return ParameterPlace(name, whole, tuple(boxes), number)


def expert_place(
    name: str, shape: tuple[int, ...], number: int, *, sections: tuple[int, int], groups: ProcessGroups
) -> ParameterPlace:
    """The place of experts [E/ep, ...], split over etp along dimension `sections[0]` of `sections[1]` matrices."""
    dim, num_together = sections
    here, mesh = groups.mesh.coordinates(dist.get_rank()), groups.mesh
    width = shape[dim] // num_together
    boxes = []
    for index in range(num_together):
        local, offsets = [0] * len(shape), [0] * len(shape)
        local[dim], offsets[dim] = index * width, (index * mesh.expert_tp + here["etp"]) * width
        offsets[0] = here["ep"] * shape[0]
        boxes.append(ShardBlock(tuple(local), (*shape[:dim], width, *shape[dim + 1 :]), tuple(offsets)))
    whole = [shape[0] * mesh.ep, *shape[1:]]
    whole[dim] *= mesh.expert_tp
    return ParameterPlace(name, tuple(whole), tuple(boxes), number, is_expert=True)


def _experts(part: PartOfModel) -> dict[nn.Parameter, tuple[int, int]]:
    """For each expert parameter, the dimension that etp splits and how many matrices are concatenated along it."""
    found = {}
    for layer in part.modules():
        if isinstance(layer, ParallelMoE):
            found[layer.experts.up] = 2, 2 if layer.experts.is_gated else 1
            found[layer.experts.down] = 1, 1
    return found
