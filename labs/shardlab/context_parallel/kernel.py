"""The attention of one block: a kernel that also returns each query's log-sum-exp of the scores.

Shapes: B batch, A query heads, K key-value heads, G = A/K, S queries, T keys, D width of a head. The kernels are
torch's own and keep no scores (arXiv 2205.14135): flash attention on a CPU and, in 16 bits, on a GPU (cuDNN's from
Hopper on); the memory-efficient kernel on a GPU in 32 bits. Inputs that no kernel supports, such as 64 bits or unusual
head widths on a GPU, use plain matrix products.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

aten: Any = torch.ops.aten
flash = aten._scaled_dot_product_flash_attention_for_cpu.default
flash_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
SHORTEST_FOR_CUDNN = 64  # minimum number of queries and of keys; shorter blocks have not been tested


def block(q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
    """softmax(q k^T / sqrt(D)) v over only these keys, and lse_BAS, the log of the sum of exponentials.

    causal: query i sees the keys 0 to i.
    """
    q_BASD, k_BKTD, v_BKTD = _with_dense_rows(q_BASD, k_BKTD, v_BKTD)
    q, k, v = _in_groups(q_BASD, k_BKTD, v_BKTD)
    o, lse = kernel_for(q, k).forward(q, k, v, causal)
    return o.view_as(q_BASD) if q is q_BASD else o.reshape(q_BASD.shape), lse.reshape(q_BASD.shape[:3])


def block_backward(
    do_BASD: Tensor, q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor, o_BASD: Tensor, lse_BAS: Tensor, *, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v of a block, from o and lse over the keys of all blocks.

    The weights of a block are exp(score - lse) with the lse of the whole row, and each row's sum of do * o also uses
    the whole row (arXiv 2307.08691, algorithm 2). With the block's own lse and o, dV and dK would belong to a different
    softmax.
    """
    do_BASD, q_BASD, k_BKTD, v_BKTD, o_BASD = _with_dense_rows(do_BASD, q_BASD, k_BKTD, v_BKTD, o_BASD)
    q, k, v = _in_groups(q_BASD, k_BKTD, v_BKTD)
    do, o = (one.reshape(q.shape) for one in (do_BASD, o_BASD))
    dq, dk, dv = kernel_for(q, k).backward(do, q, k, v, o, lse_BAS.reshape(q.shape[:3]), causal)
    if q is q_BASD:
        return dq, dk, dv
    shape = (*k_BKTD.shape[:2], -1, *k_BKTD.shape[2:])
    return dq.reshape(q_BASD.shape), dk.reshape(shape).sum(2), dv.reshape(shape).sum(2)


def _with_dense_rows(*tensors: Tensor) -> list[Tensor]:
    """Each tensor with the D numbers of a head contiguous in memory. Copies only if they are not.

    The fused kernels assume that the last dimension has stride 1, without checking. `scaled_dot_product_attention`
    checks this before it selects a kernel, but the code here bypasses it. Other strides occur in ordinary models:
    rotary positions rotate a head of width 2 as two halves of width 1, and `torch.cat` joins them with a last stride
    above 1.
    """
    return [one if one.stride(-1) == 1 else one.contiguous() for one in tensors]


def _in_groups(q_BASD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """If query heads share keys, make each key head a separate batch with G query heads. On a CPU nothing is copied."""
    num_kv = k_BKTD.shape[1]
    if q_BASD.shape[1] == num_kv:
        return q_BASD, k_BKTD, v_BKTD
    q = q_BASD.unflatten(1, (num_kv, -1)).flatten(0, 1)
    k, v = (one.flatten(0, 1).unsqueeze(1).expand(-1, q.shape[1], -1, -1) for one in (k_BKTD, v_BKTD))
    return (q, k, v) if q.is_cpu else (q, k.contiguous(), v.contiguous())


# ---- the kernels -----------------------------------------------------------------------------------------------------


class Forward(Protocol):
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, causal: bool, /) -> tuple[Tensor, Tensor]: ...


class Backward(Protocol):
    def __call__(
        self, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, /
    ) -> tuple[Tensor, Tensor, Tensor]: ...


class Kernel(NamedTuple):
    forward: Forward
    backward: Backward


def kernel_for(q: Tensor, k: Tensor) -> Kernel:
    """The kernel for queries and keys of this device, dtype and size."""
    if q.device.type == "cpu":
        return CPU_FLASH
    width = q.shape[-1]
    fits = q.device.type == "cuda" and width % 8 == 0 and width <= 256
    if fits and q.dtype in (torch.float16, torch.bfloat16):
        capability = torch.cuda.get_device_capability(q.device)
        if capability >= (9, 0) and width <= 128 and min(q.shape[2], k.shape[2]) >= SHORTEST_FOR_CUDNN:
            return GPU_CUDNN
        if capability >= (8, 0):
            return GPU_FLASH
    return GPU_EFFICIENT if fits and q.dtype in (torch.float16, torch.float32) else PLAIN


def _cpu_flash(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    return flash(q, k, v, 0.0, causal)


def _cpu_flash_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return flash_backward(do, q, k, v, o, lse, 0.0, causal)


# Without dropout, the kernels take both random-generator states as arguments but do not read them.


def _gpu_flash(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    o, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
    return o, lse


def _gpu_flash_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    state = torch.empty(2, dtype=torch.uint64, device=q.device)
    return aten._scaled_dot_product_flash_attention_backward(
        do, q, k, v, o, lse.contiguous(), None, None, q.shape[2], k.shape[2], 0.0, causal, state, state[:0]
    )


def _gpu_cudnn(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    o, lse, *_ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
    return o, lse.reshape(q.shape[:3])


def _gpu_cudnn_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    state = torch.empty((), dtype=torch.int64, device=q.device)
    rows = lse.contiguous().unsqueeze(-1)
    return aten._scaled_dot_product_cudnn_attention_backward(
        do, q, k, v, o, rows, state, state, None, None, None, q.shape[2], k.shape[2], 0.0, causal
    )


def _gpu_efficient(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    o, lse, *_ = aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)
    return o, lse[:, :, : q.shape[2]]  # its rows are padded


def _gpu_efficient_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    padded = torch.nn.functional.pad(lse, (0, -lse.shape[2] % 32), value=torch.inf)
    state = torch.empty((), dtype=torch.int64, device=q.device)
    dq, dk, dv, _ = aten._scaled_dot_product_efficient_attention_backward(
        do, q, k, v, None, o, padded, state, state, 0.0, [True, True, True, False], causal
    )
    return dq, dk, dv


def _scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if not causal:
        return scores
    return scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -torch.inf)


def _plain(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = _scores(q.to(wide), k.to(wide), causal)
    lse = scores.logsumexp(-1)
    return ((scores - lse.unsqueeze(-1)).exp() @ v.to(wide)).to(q.dtype), lse


def _plain_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    dtype, wide = q.dtype, torch.promote_types(q.dtype, torch.float32)
    do, q, k, v, o = (one.to(wide) for one in (do, q, k, v, o))
    weights = (_scores(q, k, causal) - lse.unsqueeze(-1)).exp()
    dscores = weights * (do @ v.mT - (do * o).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
    return (dscores @ k).to(dtype), (dscores.mT @ q).to(dtype), (weights.mT @ do).to(dtype)


CPU_FLASH = Kernel(_cpu_flash, _cpu_flash_backward)
GPU_FLASH = Kernel(_gpu_flash, _gpu_flash_backward)
GPU_CUDNN = Kernel(_gpu_cudnn, _gpu_cudnn_backward)
GPU_EFFICIENT = Kernel(_gpu_efficient, _gpu_efficient_backward)
PLAIN = Kernel(_plain, _plain_backward)
