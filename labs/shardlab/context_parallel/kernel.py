"""The attention of one block: a kernel that gives, beside its result, each query's log of the sum of exponentials.

Shapes: B batch, A query heads, K key-value heads, G = A/K, S queries, T keys, D width of a head. The kernel is torch's
flash attention for a CPU, which keeps no scores (arXiv 2205.14135); on a GPU there is none here yet.
"""

from __future__ import annotations

import torch
from torch import Tensor

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def block(q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(D)) v over these keys alone, and lse_BAS, the log of the sum of exponentials.

    causal: query i sees the keys 0 to i.
    """
    q, k, v = _in_groups(q_BASD, k_BKTD, v_BKTD)
    o, lse = flash(q, k, v, 0.0, causal)
    return o.view_as(q_BASD) if q is q_BASD else o.reshape(q_BASD.shape), lse.reshape(q_BASD.shape[:3])


def block_backward(
    do_BASD: Tensor, q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, o_BASD: Tensor, lse_BAS: Tensor, *, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v of a block, from o and lse over the keys of all blocks.

    The weights of a block are exp(score - lse) of the whole row, and each row's sum of do * o is that of the whole row
    (arXiv 2307.08691, algorithm 2): with a block's own two, dV and dK would be those of another softmax.
    """
    q, k, v = _in_groups(q_BASD, k_BKTD, v_BKTD)
    do, o = (one.reshape(q.shape) for one in (do_BASD, o_BASD))
    dq, dk, dv = flash_backward(do, q, k, v, o, lse_BAS.reshape(q.shape[:3]), 0.0, causal)
    if q is q_BASD:
        return dq, dk, dv
    shape = (*k_BKTD.shape[:2], -1, *k_BKTD.shape[2:])
    return dq.reshape(q_BASD.shape), dk.reshape(shape).sum(2), dv.reshape(shape).sum(2)


def _in_groups(q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where query heads share keys: each key head a batch of its own, seen by G heads without a copy (stride 0)."""
    num_kv = k_BKTD.shape[1]
    if q_BASD.shape[1] == num_kv:
        return q_BASD, k_BKTD, v_BKTD
    q = q_BASD.unflatten(1, (num_kv, -1)).flatten(0, 1)
    k, v = (one.flatten(0, 1).unsqueeze(1).expand(-1, q.shape[1], -1, -1) for one in (k_BKTD, v_BKTD))
    return q, k, v
