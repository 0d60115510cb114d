"""A linear layer cut by columns, and one cut by rows (arXiv 1909.08053, section 3).

Shapes: B batch, S sequence, I inputs, O outputs, t ranks in the group. torch stores a weight as [O, I].
A module that holds parts says so in `cuts`, {parameter: Cut}; in `partial` it names parameters that are whole on every
rank while each rank has seen a part of the tokens: their gradients must still be added up (`gradients.py`).
"""

from __future__ import annotations

from dataclasses import replace

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from shardlab.tensor_parallel.column import column_linear
from shardlab.tensor_parallel.cut import Cut
from shardlab.tensor_parallel.messages import Group, check_divisible
from shardlab.tensor_parallel.operators import gather, reduce_from_tp_in_place, split, sum_and_scatter


class ColumnParallelLinear(nn.Module):
    """y_BSO/t = x_BSI @ A_O/t,I^T + b_O/t: this rank's outputs, from all inputs. f on its way in.

    cut: how the rows of [O, I] are split; None is one section. gather_output: every rank gets all outputs.
    skip_bias_add: the bias is left to whoever comes next, who finds it in `bias`. sequence_dim: x is split along it,
    and gathered on its way in. Frozen parameters stay frozen.
    Raises ValueError for sizes that the ranks do not divide, and for an x of another dtype or width.
    """

    def __init__(
        self,
        whole: nn.Linear,
        *,
        group: Group,
        cut: Cut | None = None,
        gather_output: bool = False,
        skip_bias_add: bool = False,
        sequence_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.cut = cut or Cut((whole.out_features,))
        self.group, self.gather_output, self.skip_bias_add = group, gather_output, skip_bias_add
        self.sequence_dim = sequence_dim
        self.weight = own_parameter(whole.weight, self.cut, group=group)
        self.bias = None if whole.bias is None else own_parameter(whole.bias, self.cut, group=group)

    @property
    def cuts(self) -> dict[str, Cut]:
        return {name: self.cut for name, _ in self.named_parameters()}

    def forward(self, x_BSI: Tensor) -> Tensor:
        check_input(x_BSI, self.weight)
        bias = None if self.skip_bias_add else self.bias
        y_BSO = column_linear(x_BSI, self.weight, bias, sequence_dim=self.sequence_dim, group=self.group)
        if not self.gather_output:
            return y_BSO
        parts = gather(y_BSO, -1, group=self.group).chunk(dist.get_world_size(self.group), -1)
        return replace(self.cut, dim=-1).join(parts)


class RowParallelLinear(nn.Module):
    """y_BSO = sum over ranks of x_BSI/t @ A_O,I/t^T, + b_O: all outputs, from this rank's inputs. g on its way out.

    The bias is added once, after the sum. It is not split: every rank holds all of it. input_is_parallel: x holds this
    rank's inputs; otherwise all of them, of which it takes its own. skip_bias_add: as in the column layer.
    sequence_dim: of the sum each rank gets its part along it, and so sees a part of the bias's gradient.
    """

    def __init__(
        self,
        whole: nn.Linear,
        *,
        group: Group,
        input_is_parallel: bool = True,
        skip_bias_add: bool = False,
        sequence_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.group, self.input_is_parallel, self.skip_bias_add = group, input_is_parallel, skip_bias_add
        self.sequence_dim = sequence_dim
        self.cuts = {"weight": Cut((whole.in_features,), dim=1)}
        self.partial = () if sequence_dim is None else ("bias",)
        self.weight = own_parameter(whole.weight, self.cuts["weight"], group=group)
        self.bias = None
        if whole.bias is not None:
            self.bias = nn.Parameter(whole.bias.detach().clone(), requires_grad=whole.bias.requires_grad)

    def forward(self, x_BSI: Tensor) -> Tensor:
        x_BSI = x_BSI if self.input_is_parallel else split(x_BSI, -1, group=self.group)
        check_input(x_BSI, self.weight)
        if self.sequence_dim is not None:
            check_divisible(x_BSI.shape[self.sequence_dim], "a sequence of", group=self.group)
        y_BSO = functional.linear(x_BSI, self.weight)
        if self.sequence_dim is None:
            y_BSO = reduce_from_tp_in_place(y_BSO, group=self.group)
        else:
            y_BSO = sum_and_scatter(y_BSO, self.sequence_dim, group=self.group)
        return y_BSO if self.bias is None or self.skip_bias_add else y_BSO + self.bias


def own_parameter(whole: Tensor, cut: Cut, *, group: Group) -> nn.Parameter:
    """This rank's part of a parameter, trained or frozen as the whole one is.

    Every rank draws the whole, so what a model begins with does not depend on the number of ranks.
    """
    part = cut.part(whole.detach(), dist.get_rank(group), dist.get_world_size(group))
    return nn.Parameter(part, requires_grad=whole.requires_grad)


def check_input(x: Tensor, weight: Tensor) -> None:
    """Raise ValueError, before anything is sent, for an input that the weight cannot be multiplied with."""
    if x.dtype != weight.dtype:
        raise ValueError(f"an input of {x.dtype} meets a weight of {weight.dtype}: convert one, x.to({weight.dtype})")
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(f"an input of width {x.shape[-1]} meets a weight of {weight.shape[1]} inputs: use that width")
