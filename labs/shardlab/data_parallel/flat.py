"""Parameters flattened into one vector, of which each rank owns a shard: the basis of every ZeRO stage.

A layout says where a vector is split: `EqualShards` anywhere, `WholeParameters` only between parameters. The latter is
for optimizers that need matrices, such as Muon and Adafactor, since a shard that ends inside a matrix has no rows and
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.buckets import gradient_dtype, in_messages, split_as

Works = list[Any]  # what torch.distributed returns for calls with async_op=True


class EqualShards:
    """The vector is padded with zeros, and each rank owns an N-th of it.

    A layout's methods: `together` decides which parameters of one dtype share a vector. `arrange` returns their order
    and how many elements each rank owns. `masters` returns what this rank's optimizer updates, and placeholders for
    what other ranks own. `reduce` starts to sum gradients to their owners, and `all_gather_params` starts to send
    weights to all ranks; each sends (N-1)/N of the vector.
    """

    cuts_matrices = True

    def together(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        return in_messages(parameters)

    def arrange(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        one, _ = shard_elements(sum(parameter.numel() for parameter in parameters), num_ranks)
        return parameters, [max(one, 1)] * num_ranks

    def masters(self, vector: FlatParameters) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        return [vector.master], []

    def reduce(self, vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
        shard = full.new_empty(vector.shard_elements)
        return [dist.reduce_scatter_single(shard, full, group=vector.group, async_op=True)], shard

    def all_gather_params(self, vector: FlatParameters) -> Works:
        return [dist.all_gather_single(vector.full, vector.shard, group=vector.group, async_op=True)]


class WholeParameters:
    """The first rank's parameters, then the second's, and so on. The optimizer sees them in their original shapes."""

    cuts_matrices = False

    def together(self, parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
        return [parameters]  # assign owners over all parameters, so that the shares are even

    def arrange(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        owners = assign_owners([parameter.numel() for parameter in parameters], num_ranks)
        of_rank = [[p for p, owner in zip(parameters, owners, strict=True) if owner == r] for r in range(num_ranks)]
        return [p for some in of_rank for p in some], [sum(p.numel() for p in some) or 1 for some in of_rank]

    def masters(self, vector: FlatParameters) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        begin, own, others, start = sum(vector.lengths[: dist.get_rank(vector.group)]), [], [], 0
        for shape in vector.shapes:
            (own if begin <= start < begin + vector.shard_elements else others).append(shape)
            start += shape.numel()
        shown = vector.master.detach().new_zeros(())  # no memory, only shapes: optimizers refuse on all ranks
        masters = [nn.Parameter(view) for view in split_as(vector.master.detach(), own)]
        return masters, [nn.Parameter(shown.expand(shape)) for shape in others]

    def reduce(self, vector: FlatParameters, full: Tensor) -> tuple[Works, Tensor]:
        shards = enumerate(full.split(vector.lengths))
        works = [dist.reduce(one, group_dst=owner, group=vector.group, async_op=True) for owner, one in shards]
        return works, vector.own_shard(full)

    def all_gather_params(self, vector: FlatParameters) -> Works:
        shards = enumerate(vector.full.split(vector.lengths))
        return [dist.broadcast(one, group_src=owner, group=vector.group, async_op=True) for owner, one in shards]


Layout = EqualShards | WholeParameters


def assign_owners(sizes: Sequence[int], num_ranks: int) -> list[int]:
    """The owner of each parameter: largest first, each to the first rank with the least so far.

    No rank gets more than an even share plus one parameter (Graham 1969: longest processing time first).
    """
    owners, load = [0] * len(sizes), [0] * num_ranks
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        owners[place] = load.index(min(load))
        load[owners[place]] += sizes[place]
    return owners


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
        self.gradient_dtype = gradient_dtype(self.parameters[0])  # once: a rank may change its parameters later
        self.shard = self.own_shard(self.full) if stays_whole else self.own_shard(self.full).clone()
        precise = self.own_shard(given).to("cpu" if offload else given.device, master_dtype or given.dtype)
        is_own = (precise.dtype, precise.device) == (self.shard.dtype, self.shard.device)
        self.master = nn.Parameter(self.shard if is_own else precise.clone())
        self.masters, self.shown = layout.masters(self)

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
        return end_to_end(
            [torch.zeros_like(p, dtype=self.gradient_dtype) if p.grad is None else p.grad for p in self.parameters],
            self.padding,
        )

    def nan_filled(self) -> Tensor:
        """A vector of NaN, which a rank sends if it cannot compute its gradients."""
        return self.shard.new_full((sum(self.lengths),), torch.nan, dtype=self.gradient_dtype)

    def take_gradient(self, shard: Tensor | None) -> None:
        """Set the masters' gradients from this rank's shard, in their dtype and on their device. None removes them."""
        shapes = [master.shape for master in self.masters]
        gradients = [None] * len(shapes) if shard is None else split_as(shard.to(self.master), shapes)
        for master, gradient in zip(self.masters, gradients, strict=True):
            master.grad = gradient

    @torch.no_grad()
    def refresh_shard(self) -> None:
        """Copy the master into the shard, unless they share memory."""
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)


@torch.no_grad()
def end_to_end(tensors: Sequence[Tensor], padding: int) -> Tensor:
    """One vector of all elements in order, followed by `padding` zeros."""
    return torch.cat([*(tensor.reshape(-1) for tensor in tensors), tensors[0].new_zeros(padding)])
