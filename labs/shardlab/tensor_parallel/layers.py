"""A linear layer split by columns, and one split by rows (arXiv 1909.08053, section 3).

Shapes: B batch, S sequence, I inputs, O outputs, t ranks in the group. torch stores a weight as [O, I].
A module with split parameters lists them in `cuts`, {parameter: Cut}. In `partial` it names parameters that are whole
on every rank although each rank sees only a part of the tokens: their gradients must still be summed (`gradients.py`).
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
    """y_BSO/t = x_BSI @ A_O/t,I^T + b_O/t: this rank's outputs, from all inputs. f is applied to the input.

    cut: how the rows of [O, I] are split; None is one section. gather_output: every rank gets all outputs.
    skip_bias_add: the next module adds the bias, which is in `bias`. sequence_dim: x is split along this dimension and
    gathered first. Frozen parameters stay frozen.
    Raises ValueError if the ranks do not divide a size, or if x has the wrong dtype or width.
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
    """y_BSO = sum over ranks of x_BSI/t @ A_O,I/t^T, + b_O: all outputs, from this rank's inputs. g is applied last.

    The bias is added once, after the sum. It is not split: every rank holds all of it. input_is_parallel: x holds only
    this rank's inputs; otherwise x holds all of them and the layer takes its part. skip_bias_add: as in the column
    layer. sequence_dim: each rank gets its part of the sum along this dimension, so the bias gradient is partial.
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
    """This rank's part of a parameter, trainable or frozen like the whole one.

    Every rank initializes the whole parameter, so the initial model does not depend on the number of ranks.
    """
    part = cut.part(whole.detach(), dist.get_rank(group), dist.get_world_size(group))
    return nn.Parameter(part, requires_grad=whole.requires_grad)


def check_input(x: Tensor, weight: Tensor) -> None:
    """Raise ValueError, before anything is sent, if the input and the weight cannot be multiplied."""
    if x.dtype != weight.dtype:
        raise ValueError(f"the input is {x.dtype}, but the weight is {weight.dtype}: convert one, x.to({weight.dtype})")
    if x.shape[-1] != weight.shape[1]:
        raise ValueError(f"the input has width {x.shape[-1]}, but the weight takes {weight.shape[1]}: use that width")
