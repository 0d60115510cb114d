"""A linear layer cut by columns, and one cut by rows (arXiv 1909.08053, section 3).

Shapes: B batch, S sequence, I inputs, O outputs, t ranks in the group. torch stores a weight as [O, I].
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.costs.model import divisors
from shardlab.tensor_parallel.operators import sum_of_all, to_all


def part_of(tensor: Tensor, dim: int, *, group: dist.ProcessGroup | None) -> nn.Parameter:
    """This rank's equal part of a tensor, copied: a view would keep the whole alive.

    Raises ValueError for a size that the ranks do not divide, with the numbers of ranks that do.
    """
    size = dist.get_world_size(group)
    if tensor.shape[dim] % size:
        raise ValueError(
            f"{tensor.shape[dim]} cannot be split over {size} ranks: use a tensor-parallel size among "
            f"{divisors(tensor.shape[dim])}"
        )
    return nn.Parameter(tensor.detach().chunk(size, dim)[dist.get_rank(group)].clone())


class ColumnParallelLinear(nn.Module):
    """y_BSO/t = x_BSI @ A_O/t,I^T + b_O/t: this rank's outputs, from all inputs. f on its way in.

    num_together: how many matrices the layer holds one after the other, 3 for queries, keys and values; each is cut.
    """

    def __init__(self, whole: nn.Linear, *, group: dist.ProcessGroup | None, num_together: int = 1) -> None:
        super().__init__()
        self.group = group
        self.weight = _part_of_each(whole.weight, num_together, group)
        self.bias = None if whole.bias is None else _part_of_each(whole.bias, num_together, group)

    def forward(self, x_BSI: Tensor) -> Tensor:
        return functional.linear(to_all(x_BSI, group=self.group), self.weight, self.bias)

    def split(self) -> Iterator[nn.Parameter]:
        """The parameters of which other ranks have other parts."""
        return iter(self.parameters())


class RowParallelLinear(nn.Module):
    """y_BSO = sum over ranks of x_BSI/t @ A_O,I/t^T, + b_O: all outputs, from this rank's inputs. g on its way out.

    The bias is added once, after the sum. It is not split: every rank holds all of it.
    """

    def __init__(self, whole: nn.Linear, *, group: dist.ProcessGroup | None) -> None:
        super().__init__()
        self.group = group
        self.weight = part_of(whole.weight, 1, group=group)
        self.bias = None if whole.bias is None else nn.Parameter(whole.bias.detach().clone())

    def forward(self, x_BSI: Tensor) -> Tensor:
        y_BSO = sum_of_all(functional.linear(x_BSI, self.weight), group=self.group)
        return y_BSO if self.bias is None else y_BSO + self.bias

    def split(self) -> Iterator[nn.Parameter]:
        """The parameters of which other ranks have other parts."""
        return iter([self.weight])


def split_parameters(module: nn.Module) -> set[nn.Parameter]:
    """All parameters of which this rank has only a part; the others are the same on every tensor-parallel rank."""
    layers = (one for one in module.modules() if isinstance(one, ColumnParallelLinear | RowParallelLinear))
    return {parameter for layer in layers for parameter in layer.split()}


def _part_of_each(tensor: Tensor, num_together: int, group: dist.ProcessGroup | None) -> nn.Parameter:
    parts = [part_of(one, 0, group=group) for one in tensor.chunk(num_together)]
    return nn.Parameter(torch.cat([part.detach() for part in parts]))
