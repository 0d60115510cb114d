"""A reduce-scatter that sends only the bytes that a reduce-scatter needs.

gloo implements it as an all-reduce of which each rank keeps a slice, so the two look the same on the wire. In a job,
this ring of messages replaces the operator behind all of torch's reduce-scatter functions. Each rank sends (N-1)/N of
the whole tensor. An answer that restores gloo's version sends more, not less.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

FIRST_TAG = 1 << 30  # of the ring's messages, one tag per call; an answer's own messages have smaller tags
_SUMS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
_num_calls: Counter[str] = Counter()  # by group name; all members count the same calls
_library = torch.library.Library("c10d", "IMPL")


def install() -> None:
    """Replace torch's own kernels in this process and its forks."""
    kernels = {
        "_reduce_scatter_base_": _of_one_tensor,
        "reduce_scatter_": _of_lists,
        "reduce_scatter_tensor_coalesced_": _of_many_tensors,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns about overridden kernels
        for name, kernel in kernels.items():
            _library.impl(name, kernel, "CPU", allow_override=True)


def _of_one_tensor(
    output: Tensor, whole: Tensor, group: Any, operation: Any, asynchronous: bool = True, timeout: int = -1
) -> tuple[Tensor, Any]:
    _ring(output, _slices(whole, output), group, operation)
    return output, _done()


def _of_lists(
    outputs: list[Tensor],
    inputs: list[list[Tensor]],
    group: Any,
    operation: Any,
    asynchronous: bool = True,
    timeout: int = -1,
) -> tuple[list[Tensor], Any]:
    for output, chunks in zip(outputs, inputs, strict=True):
        _ring(output, chunks, group, operation)
    return outputs, _done()


def _of_many_tensors(
    outputs: list[Tensor],
    inputs: list[Tensor],
    group: Any,
    operation: Any,
    asynchronous: bool = True,
    timeout: int = -1,
) -> Any:
    for output, whole in zip(outputs, inputs, strict=True):
        _ring(output, _slices(whole, output), group, operation)
    return _done()


def _slices(whole: Tensor, output: Tensor) -> Sequence[Tensor]:
    """One slice per rank, each the size of the output; raises ValueError if the sizes do not match."""
    if output.numel() == 0 or whole.numel() % output.numel():
        raise ValueError(f"reduce_scatter: {whole.numel()} numbers cannot be cut into slices of {output.numel()}")
    return whole.reshape(-1).split(output.numel())


def _ring(output: Tensor, chunks: Sequence[Tensor], group_object: Any, operation: Any) -> None:
    """Leave the reduced slice r on rank r: N-1 times, pass a partial result to the right and add this rank's slice."""
    group = dist.ProcessGroup.unbox(group_object)
    rank, num_ranks, kind = group.rank(), group.size(), operation.op()
    if kind not in _SUMS:
        raise ValueError(f"reduce_scatter over gloo does not support {kind}")
    if len(chunks) != num_ranks:
        raise ValueError(f"reduce_scatter: {len(chunks)} slices for the {num_ranks} ranks of the group")
    tag = FIRST_TAG + _num_calls[group.group_name]
    _num_calls[group.group_name] += 1
    partial = chunks[rank - 1].contiguous()
    for step in range(num_ranks - 1):
        own = chunks[rank - 2 - step]
        arrived = torch.empty_like(own, memory_format=torch.contiguous_format)
        sending = torch.ops.c10d.send([partial], group_object, (rank + 1) % num_ranks, tag)
        receiving = torch.ops.c10d.recv_([arrived], group_object, (rank - 1) % num_ranks, tag)
        for work in (receiving, sending):
            dist.Work.unbox(work).wait()
        partial = _SUMS[kind](arrived, own)
    result = partial / num_ranks if kind == dist.ReduceOp.AVG else partial
    output.copy_(result.reshape(output.shape))


def _done() -> Any:
    """A handle of completed work: the ring has already waited for all its messages."""
    from torch._C._distributed_c10d import FakeWork

    return dist.Work.boxed(FakeWork())
