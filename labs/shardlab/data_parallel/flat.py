"""Parameters end to end in one vector, of which each rank owns an equal slice: what all three stages of ZeRO cut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardlab.costs.memory_states import shard_elements
from shardlab.data_parallel.buckets import split_as


class FlatParameters:
    """A vector `full` that holds the parameters, padded with zeros for N equal slices; `shard` is this rank's slice.

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
        self.parameters, self.group = list(parameters), group
        self.num_elements = sum(parameter.numel() for parameter in parameters)
        self.shard_elements, self.padding = shard_elements(self.num_elements, dist.get_world_size(group))
        self.shapes = [parameter.shape for parameter in parameters]
        given = end_to_end(self.parameters, self.padding)
        self.full = given if compute_dtype is None else given.to(compute_dtype)
        for parameter, view in zip(self.parameters, split_as(self.full, self.shapes), strict=True):
            parameter.data = view
        self.shard = self.own_slice(self.full)
        precise = self.own_slice(given).to("cpu" if offload else given.device, master_dtype or given.dtype)
        is_own = (precise.dtype, precise.device) == (self.shard.dtype, self.shard.device)
        self.master = nn.Parameter(self.shard if is_own else precise.clone())

    @property
    def kept(self) -> list[Tensor]:
        """What holds weights between steps, beside the parameters themselves."""
        return [self.shard]

    def own_slice(self, full: Tensor) -> Tensor:
        """This rank's slice of a vector of the same length, as a view."""
        return full.view(-1, self.shard_elements)[dist.get_rank(self.group)]

    def gradient(self) -> Tensor:
        """The parameters' gradients end to end, zeros where there is none, and the padding."""
        return end_to_end(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters],
            self.padding,
        )

    def no_numbers(self) -> Tensor:
        """What a rank sends in place of gradients when it can compute none: NaN everywhere."""
        return self.shard.new_full((self.shard_elements * dist.get_world_size(self.group),), torch.nan)

    @torch.no_grad()
    def spread(self) -> dist.Work | None:
        """Start sending this rank's new weights to all and taking in theirs: (N-1)/N of the vector goes out."""
        if self.master.data_ptr() != self.shard.data_ptr():
            self.shard.copy_(self.master)
        return dist.all_gather_single(self.full, self.shard, group=self.group, async_op=True)


@torch.no_grad()
def end_to_end(tensors: Sequence[Tensor], padding: int) -> Tensor:
    """One vector of all numbers, in order, and `padding` zeros."""
    return torch.cat([*(tensor.reshape(-1) for tensor in tensors), tensors[0].new_zeros(padding)])
