"""Parameters flattened into one vector, of which each rank owns a shard: the basis of every ZeRO stage.

A layout says where a vector is split: `EqualShards` anywhere, `WholeParameters` only between parameters. The latter is
for optimizers that need matrices, such as Muon and Adafactor, since a shard that ends inside a matrix has no rows and
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory.states import assign_owners, shard_elements
from shardlab.data_parallel.buckets import in_messages, split_as

Works = list[Any]  # what torch.distributed returns for calls with async_op=True


class EqualShards:
    """The vector is padded with zeros, and each rank owns an N-th of it.

    A layout's methods: `together` decides which parameters, all of one dtype and device, share a vector. `arrange`
    returns their order and how many elements each rank owns. `masters` returns what this rank's optimizer updates.
    `reduce` starts to sum gradients to their owners, and `all_gather_params` to send weights to all ranks; each sends
    (N-1)/N of the vector.
    """

    cuts_matrices = True

    def together(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        return [some for of_kind in _by_kind(parameters) for some in in_messages(of_kind)]

    def arrange(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        one, _ = shard_elements(sum(parameter.numel() for parameter in parameters), num_ranks)
        return parameters, [max(one, 1)] * num_ranks

    def masters(self, vector: FlatParameters) -> list[nn.Parameter]:
        return [vector.master]

    def reduce(self, vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
        shard = full.new_empty(vector.shard_elements)
        return [dist.reduce_scatter_single(shard, full, group=vector.group, async_op=True)], shard

    def all_gather_params(self, vector: FlatParameters) -> Works:
        return [dist.all_gather_single(vector.full, vector.shard, group=vector.group, async_op=True)]


class WholeParameters:
    """The first rank's parameters, then the second's, and so on. The optimizer sees them in their original shapes."""

    cuts_matrices = False

    def together(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        return _by_kind(parameters)  # assign owners over all parameters, so that the shares are even

    def arrange(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        owners = assign_owners([parameter.numel() for parameter in parameters], num_ranks)
        of_rank = [[p for p, owner in zip(parameters, owners, strict=True) if owner == r] for r in range(num_ranks)]
        return [p for some in of_rank for p in some], [sum(p.numel() for p in some) or 1 for some in of_rank]

    def masters(self, vector: FlatParameters) -> list[nn.Parameter]:
        begin = sum(vector.lengths[: dist.get_rank(vector.group)])
        starts = accumulate((shape.numel() for shape in vector.shapes), initial=0)
        pairs = zip(starts, vector.shapes, strict=False)
        own = [shape for start, shape in pairs if begin <= start < begin + vector.shard_elements]
        return [nn.Parameter(view) for view in split_as(vector.master.detach(), own)]

    def reduce(self, vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
        shards, rank = list(full.split(vector.lengths)), dist.get_rank(vector.group)
        shards[rank] = shards[rank].clone()  # so that the vector can be freed
        calls = [dist.reduce(one, group_dst=n, group=vector.group, async_op=True) for n, one in enumerate(shards)]
        return calls, shards[rank]

    def all_gather_params(self, vector: FlatParameters) -> Works:
        shards = enumerate(vector.full.split(vector.lengths))
        return [dist.broadcast(one, group_src=owner, group=vector.group, async_op=True) for owner, one in shards]


Layout = EqualShards | WholeParameters


def _by_kind(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    by_kind: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        by_kind.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return list(by_kind.values())


class FlatParameters:
    """A vector `full` that holds the parameters; `shard` is this rank's part of it.

    Every shard has at least one element (padding if necessary), because the alarm needs an element to arrive in. The
    parameters become views of `full`. `master` is the weight that the optimizer updates: the shard itself, or a copy if
    the dtypes differ. compute_dtype: of the vector. master_dtype: of the master. Both default to the parameters' dtype.
    offload: the master is on the CPU, and with it the optimizer and its state. stays_whole: False gives the shard its
    own memory, so that `full` can be freed.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        *,
        layout: Layout,
        group: dist.ProcessGroup | None,
        stays_whole: bool = True,
        master_dtype: torch.dtype | None = None,
        compute_dtype: torch.dtype | None = None,
        offload: bool = False,
    ) -> None:
        self.layout, self.group = layout, group
        self.parameters, self.lengths = layout.arrange(parameters, dist.get_world_size(group))
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.shard_elements = self.lengths[dist.get_rank(group)]
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.padding = sum(self.lengths) - self.num_elements
        given = end_to_end(self.parameters, self.padding)
        self.full = given if compute_dtype is None else given.to(compute_dtype)
        for parameter, view in zip(self.parameters, split_as(self.full, self.shapes), strict=True):
            parameter.data = view
        self.shard = self.own_shard(self.full) if stays_whole else self.own_shard(self.full).clone()
        precise = self.own_shard(given).to("cpu" if offload else given.device, master_dtype or given.dtype)
        is_own = (precise.dtype, precise.device) == (self.shard.dtype, self.shard.device)
        self.master = nn.Parameter(self.shard if is_own else precise.clone())
        self.masters = layout.masters(self)

    def own_shard(self, full: Tensor) -> Tensor:
        """This rank's part of a vector of the same length, as a view."""
        return full.split(self.lengths)[dist.get_rank(self.group)]

    def slice_heads(self, full: Tensor) -> list[Tensor]:
        """Views of the first element of each rank's shard; a single view if the shards have equal lengths."""
        if len(set(self.lengths)) == 1:
            return [full.view(len(self.lengths), -1)[:, 0]]
        return [shard[:1] for shard in full.split(self.lengths)]

    def gradient(self) -> Tensor:
        """The parameters' gradients flattened, with zeros for missing ones, plus the padding."""
        return end_to_end([torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters], self.padding)

    def take_gradient(self, shard: Tensor) -> None:
        """Set the masters' gradients from this rank's shard, in their dtype and on their device."""
        gradients = split_as(shard.to(self.master), [master.shape for master in self.masters])
        for master, gradient in zip(self.masters, gradients, strict=True):
            master.grad = gradient

    @torch.no_grad()
    def refresh_shard(self) -> None:
        """Copy the master into the shard, unless they share memory."""
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)


class GatheredVector:
    """A vector that has memory only between `gather` and `free`. Between steps only the shard is stored.

    start_gather: how weights are sent. secondary: hpZ's second shard, kept until the next step.
    """

    def __init__(self, flat: FlatParameters, start_gather: Gather, *, number: int) -> None:
        self.flat, self._start_gather, self.number = flat, start_gather, number
        self.secondary: Tensor | None = None
        self._full_bytes = flat.full.untyped_storage().nbytes()
        self._finish: Callable[[], Any] | None = None
        self.is_there = True
        self.free()

    @torch.no_grad()
    def gather(self, *, alarm: bool = False) -> None:
        """Start to gather, unless already started. Call `wait` before use. alarm: send NaN instead."""
        if not self.is_there:
            self.is_there = True
            mine = self.flat.shard if self.secondary is None else self.secondary
            self._finish = self._start_gather(self, torch.full_like(mine, torch.nan) if alarm else mine)

    def allocate(self) -> None:
        """Allocate the vector's memory to gather into."""
        self.flat.full.untyped_storage().resize_(self._full_bytes)

    @torch.no_grad()
    def wait(self) -> None:
        """Wait until the gathered weights can be used."""
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def free(self) -> None:
        """Free the vector's memory. Views and tensors saved by autograd stay valid and see the next gathered values."""
        self.wait()
        if self.is_there:
            self.flat.full.untyped_storage().resize_(0)
            self.is_there = False


Gather = Callable[[GatheredVector, Tensor], Callable[[], Any]]  # sends this rank's shard; the result waits for all


@torch.no_grad()
def end_to_end(tensors: Sequence[Tensor], padding: int) -> Tensor:
    """One vector of all elements in order, followed by `padding` zeros."""
    return torch.cat([*(tensor.reshape(-1) for tensor in tensors), tensors[0].new_zeros(padding)])
