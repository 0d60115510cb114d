"""Read the operators of torch's `c10d` namespaces: which collective, among whom, how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree

PROCESS_GROUP_METHODS = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)

# operator name, without namespace and trailing underscores -> (kind, which argument has the whole tensor)
_WHOLE = {
    "send": ("send", 0),
    "isend": ("send", 0),
    "recv": ("recv", 0),
    "irecv": ("recv", 0),
    "recv_any_source": ("recv", 0),
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce", 0),
    "all_reduce": ("all_reduce", 0),
    "all_reduce_coalesced": ("all_reduce", 0),
    "reduce_scatter": ("reduce_scatter", 1),
    "_reduce_scatter_base": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1),
    "reduce_scatter_tensor": ("reduce_scatter", 0),
    "reduce_scatter_tensor_out": ("reduce_scatter", 0),
    "allgather": ("all_gather", 0),
    "_allgather_base": ("all_gather", 0),
    "allgather_coalesced": ("all_gather", 0),
    "allgather_into_tensor_coalesced": ("all_gather", 0),
    "all_gather_into_tensor": ("all_gather", 0),
    "all_gather_into_tensor_out": ("all_gather", 0),
    "all_gather_into_tensor_coalesced": ("all_gather", 0),
    "broadcast": ("broadcast", 0),
    "reduce": ("reduce", 0),
    "gather": ("gather", 1),
    "scatter": ("scatter", 0),
    "alltoall": ("all_to_all", 1),
    "alltoall_base": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 0),
    "barrier": ("barrier", None),
    "monitored_barrier": ("barrier", None),
}
_SHARD_GIVEN = ("gather", "scatter")  # every rank gives or gets one N-th: the whole is N times as large
_FUNCTIONAL_SHARD_GIVEN = ("all_gather_into_tensor", "all_gather_into_tensor_out", "all_gather_into_tensor_coalesced")


@dataclass(frozen=True)
class Call:
    """One communication call; `members` and `peer` are ranks of the world, `payload_bytes` is of the whole tensor."""

    kind: str
    members: tuple[int, ...]
    peer: int | None
    tag: int
    shape: tuple[int, ...]
    dtype: str
    payload_bytes: int


def read(func: Any, args: tuple, kwargs: dict, group: dist.ProcessGroup | None) -> Call | None:
    """The call that an operator makes, or None for operators that move nothing (`wait_tensor`, checks)."""
    name = func._schema.name.split("::")[1].rstrip("_")
    if name not in _WHOLE:
        return None
    kind, position = _WHOLE[name]
    group = group or _group_of(func, args)
    members = tuple(dist.get_process_group_ranks(group)) if group is not None else (dist.get_rank(),)
    tensors = [] if position is None else tensors_in(args[position])
    factor = len(members) if kind in _SHARD_GIVEN or name in _FUNCTIONAL_SHARD_GIVEN else 1
    peer = members[args[2]] if name in ("send", "recv") else None
    return Call(
        kind=kind,
        members=members,
        peer=peer,
        tag=args[3] if name in ("send", "recv") else 0,
        shape=_shape(tensors),
        dtype=str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
        payload_bytes=factor * sum(t.numel() * t.element_size() for t in tensors),
    )


def _shape(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The shape of a single tensor; of several, their number of elements in all."""
    if len(tensors) == 1:
        return tuple(tensors[0].shape)
    return (sum(t.numel() for t in tensors),) if tensors else ()


def tensors_in(argument: Any) -> list[torch.Tensor]:
    """All tensors of an argument or a result, however nested."""
    return [t for t in _pytree.tree_leaves(argument) if isinstance(t, torch.Tensor)]


def _group_of(func: Any, args: tuple) -> dist.ProcessGroup | None:
    """The process group among an operator's arguments: an object, or a name in the functional namespace."""
    for value, argument in zip(args, func._schema.arguments, strict=False):
        if argument.name == "process_group":
            return dist.ProcessGroup.unbox(value)
        if argument.name == "group_name" and isinstance(value, str):
            return dist.distributed_c10d._resolve_process_group(value)  # type: ignore[arg-type]
    return None
