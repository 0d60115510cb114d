"""Read the operators in torch's `c10d` namespaces: which collective, among which ranks, how many bytes."""

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

# operator name without namespace and trailing underscores -> (kind, index of the argument with the whole tensor)
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
_SHARD_GIVEN = ("gather", "scatter")  # the argument is one N-th: the whole is N times as large
_FUNCTIONAL_SHARD_GIVEN = ("all_gather_into_tensor", "all_gather_into_tensor_out", "all_gather_into_tensor_coalesced")


@dataclass(frozen=True)
class OperatorCall:
    """One communication call; `members` and `peer` are ranks of the world, `payload_bytes` is for the whole tensor.

    sent_bytes: bytes that this rank sends if the arguments determine them; None if the ring formula applies.
    """

    kind: str
    members: tuple[int, ...]
    peer: int | None
    tag: int
    shape: tuple[int, ...]
    dtype: str
    payload_bytes: int
    sent_bytes: float | None = None


def read(func: Any, args: tuple, kwargs: dict, group: dist.ProcessGroup | None) -> OperatorCall | None:
    """The call that an operator makes, or None for operators that send nothing (`wait_tensor`, checks).

    Raises RuntimeError if an operator that carries data has no tensor where expected: its bytes would not be counted.
    """
    name = func._schema.name.split("::")[1].rstrip("_")
    if name not in _WHOLE:
        return None
    kind, position = _WHOLE[name]
    if func.namespace == "_c10d_functional":
        position = 0  # these return their results
    group = group or _group_of(func, args)
    members = tuple(dist.get_process_group_ranks(group)) if group is not None else (dist.get_rank(),)
    tensors = [] if position is None else tensors_in(args[position])
    if position is not None and not tensors:
        raise RuntimeError(
            f"{func} has no tensor as argument {position}: the meter was written for another version of torch"
        )
    factor = len(members) if kind in _SHARD_GIVEN or name in _FUNCTIONAL_SHARD_GIVEN else 1
    peer = members[args[2]] if name in ("send", "recv") else None
    return OperatorCall(
        kind=kind,
        members=members,
        peer=peer,
        tag=args[3] if name in ("send", "recv") else 0,
        shape=_shape(tensors),
        dtype=str(tensors[0].dtype).removeprefix("torch.") if tensors else "",
        payload_bytes=factor * _bytes_of(tensors),
        sent_bytes=_sent_bytes(kind, func, args, tensors, members),
    )


def _sent_bytes(
    kind: str, func: Any, args: tuple, tensors: list[torch.Tensor], members: tuple[int, ...]
) -> float | None:
    """Bytes that this rank sends, if the arguments determine them.

    The root of a gather sends nothing, the root of a scatter sends a part to each other rank, and in an all-to-all each
    rank sends everything except its own part.
    """
    named = {argument.name: value for value, argument in zip(args, func._schema.arguments, strict=False)}
    size, rank = len(members), members.index(dist.get_rank())
    if kind in _SHARD_GIVEN:
        is_root = named["root_rank"] == rank
        if kind == "gather":
            return 0 if is_root else _bytes_of(tensors)
        return (size - 1) * _bytes_of(tensors) if is_root else 0
    if kind != "all_to_all":
        return None
    if len(tensors) == size > 1:  # a list
        return _bytes_of(tensors) - _bytes_of([tensors[rank]])
    splits = named.get("input_split_sizes") or [1] * size
    whole = _bytes_of(tensors)
    return whole * (1 - splits[rank] / sum(splits)) if whole else 0


def _bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


def _shape(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The shape of a single tensor; for several, the total number of elements."""
    if len(tensors) == 1:
        return tuple(tensors[0].shape)
    return (sum(t.numel() for t in tensors),) if tensors else ()


def tensors_in(argument: Any) -> list[torch.Tensor]:
    """All tensors in a nested argument or result."""
    return [t for t in _pytree.tree_leaves(argument) if isinstance(t, torch.Tensor)]


def _group_of(func: Any, args: tuple) -> dist.ProcessGroup | None:
    """The process group among an operator's arguments: an object, or a name in the functional namespace."""
    for value, argument in zip(args, func._schema.arguments, strict=False):
        if argument.name == "process_group":
            return dist.ProcessGroup.unbox(value)
        if argument.name == "group_name" and isinstance(value, str):
            return dist.distributed_c10d._resolve_process_group(value)  # type: ignore[arg-type]
    return None
