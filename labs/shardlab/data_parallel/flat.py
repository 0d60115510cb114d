"""Parameters end to end in one vector, each rank owning an equal slice: what all three stages of ZeRO cut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory.states import shard_elements
from shardlab.data_parallel.buckets import gradient_dtype, split_as


class FlatParameters:
    """A vector `full` that holds the parameters, padded with zeros for N equal slices; `shard` is this rank's slice.

    A vector of empty parameters is one number of padding per rank: the alarm needs a place to arrive.
    The parameters themselves become views of `full`: who gathers the vector has set them all. `master` is the weight
    that the optimizer updates: the shard itself, or a copy where the dtypes differ: `compute_dtype` is that of the
    vector, `master_dtype` the master's; by default both are the parameters' own. offload: the master, and with it the
    optimizer and its state, live in the CPU's memory.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        *,
        group: dist.ProcessGroup | None,
        master_dtype: torch.dtype | None = None,
        compute_dtype: torch.dtype | None = None,
        offload: bool = False,
    ) -> None:
        self.group = group
        self.parameters, self.lengths = self._cut(list(parameters), dist.get_world_size(group))
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.shard_elements = self.lengths[dist.get_rank(group)]
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.padding = sum(self.lengths) - self.num_elements
        given = end_to_end(self.parameters, self.padding)
        self.full = given if compute_dtype is None else given.to(compute_dtype)
        for parameter, view in zip(self.parameters, split_as(self.full, self.shapes), strict=True):
            parameter.data = view
        self.gradient_dtype = gradient_dtype(self.parameters[0])  # asked once: a rank may change its parameters later
        self.shard = self.own_slice(self.full)
        precise = self.own_slice(given).to("cpu" if offload else given.device, master_dtype or given.dtype)
        is_own = (precise.dtype, precise.device) == (self.shard.dtype, self.shard.device)
        self.master = nn.Parameter(self.shard if is_own else precise.clone())

    def _cut(self, parameters: list[nn.Parameter], num_ranks: int) -> tuple[list[nn.Parameter], list[int]]:
        """The parameters in the order in which they lie in the vector, and how much of it each rank owns."""
        one, _ = shard_elements(sum(parameter.numel() for parameter in parameters), num_ranks)
        return parameters, [max(one, 1)] * num_ranks

    @property
    def masters(self) -> list[nn.Parameter]:
        """What this rank's optimizer updates."""
        return [self.master]

    def candidates(self) -> list[nn.Parameter]:
        """What the optimizer is built with: the masters, and whatever shows it what other ranks own."""
        return self.masters

    @property
    def kept(self) -> list[Tensor]:
        """What holds weights between steps, beside the parameters themselves."""
        return [self.shard]

    def own_slice(self, full: Tensor) -> Tensor:
        """This rank's slice of a vector of the same length, as a view."""
        return full.split(self.lengths)[dist.get_rank(self.group)]

    def heads(self, full: Tensor) -> list[Tensor]:
        """The first number of each rank's slice, as views."""
        return [full.view(len(self.lengths), -1)[:, 0]]

    def gradient(self) -> Tensor:
        """The parameters' gradients end to end, zeros where there is none, and the padding."""
        return end_to_end(
            [torch.zeros_like(p, dtype=self.gradient_dtype) if p.grad is None else p.grad for p in self.parameters],
            self.padding,
        )

    def no_numbers(self) -> Tensor:
        """What a rank sends in place of gradients when it can compute none: NaN everywhere."""
        return self.shard.new_full((sum(self.lengths),), torch.nan, dtype=self.gradient_dtype)

    def reduce(self, full: Tensor) -> tuple[list[dist.Work], Tensor]:
        """Start to sum a vector over the ranks; (N-1)/N of it goes out. The slice holds the sum in the end."""
        shard = full.new_empty(self.shard_elements)
        return _started(dist.reduce_scatter_single(shard, full, group=self.group, async_op=True)), shard

    def take_gradient(self, shard: Tensor | None) -> None:
        """Give this rank's slice of the gradient to the masters, in their type and on their device; None takes it."""
        for master in self.masters:
            master.grad = None
        if shard is not None:
            shapes = [master.shape for master in self.masters]
            for master, gradient in zip(self.masters, split_as(shard.to(self.master), shapes), strict=True):
                master.grad = gradient

    @torch.no_grad()
    def spread(self) -> list[dist.Work]:
        """Start sending this rank's new weights to all and taking in theirs: (N-1)/N of the vector goes out."""
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)
        return _started(dist.all_gather_single(self.full, self.shard, group=self.group, async_op=True))


def _started(work: dist.Work | None) -> list[dist.Work]:
    return [] if work is None else [work]


@torch.no_grad()
def end_to_end(tensors: Sequence[Tensor], padding: int) -> Tensor:
    """One vector of all numbers, in order, and `padding` zeros."""
    return torch.cat([*(tensor.reshape(-1) for tensor in tensors), tensors[0].new_zeros(padding)])
