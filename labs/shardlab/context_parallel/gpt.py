"""The small GPT with split sequences: only the attention core, between the QKV matrix and the projection, changes."""

from __future__ import annotations

from torch import Tensor, nn

from shardlab.context_parallel.attention import RING, Method, attend
from shardlab.context_parallel.balance import SequenceLayout
from shardlab.context_parallel.mask import CAUSAL, Mask
from shardlab.context_parallel.messages import Group
from shardlab.model.attention import Attention


class ContextParallelCore(nn.Module):
    """`AttentionCore` over the keys of all ranks. The mask can be set for each batch. agreed: as in `attend`."""

    def __init__(self, layout: SequenceLayout, group: Group, method: Method, mask: Mask, agreed: bool) -> None:
        super().__init__()
        self.layout, self.group, self.method, self.mask, self.agreed = layout, group, method, mask, agreed

    def forward(self, q_BASD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor) -> Tensor:
        return attend(
            q_BASD,
            k_BKSD,
            v_BKSD,
            layout=self.layout,
            group=self.group,
            method=self.method,
            mask=self.mask,
            agreed=self.agreed,
        )


def split_attention(
    model: nn.Module,
    *,
    layout: SequenceLayout,
    group: Group,
    method: Method = RING,
    mask: Mask = CAUSAL,
    agreed: bool = False,
) -> nn.Module:
    """Let every attention layer of a model see the keys of all ranks. Changes the model in place and returns it.

    Then call the model with this rank's tokens and their positions. Weights and their names do not change. Raises
    ValueError for a model without attention, or with dropout on the scores, since no block keeps its scores.
    """
    found = [one for one in model.modules() if isinstance(one, Attention)]
    if not found:
        raise ValueError("the model has no Attention of shardlab.model: there is nothing to split")
    for one in found:
        if not isinstance(one.core, ContextParallelCore) and one.core.dropout.p > 0:
            raise ValueError(
                f"dropout on attention scores (p = {one.core.dropout.p}) is not supported: "
                "build the model with flash=True"
            )
        one.core = ContextParallelCore(layout, group, method, mask, agreed)  # type: ignore[assignment]
    return model
