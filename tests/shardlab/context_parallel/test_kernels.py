"""Each kernel's block compared with float64 products: o, lse, and gradients from the o and lse of more keys."""

import pytest
import torch
from shardlab.context_parallel import kernel
from shardlab.context_parallel.kernel import (
    CPU_FLASH,
    GPU_CUDNN,
    GPU_EFFICIENT,
    GPU_FLASH,
    PLAIN,
    block,
    block_backward,
)
from shardlab.context_parallel.mask import CAUSAL, FULL
from shardlab.context_parallel.online import attend_here
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

BATCH, HEADS, WIDTH = 2, 4, 16
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="these kernels run on a GPU")


def in_float64(q, k, v, do, causal):
    """o, lse, dq, dk, dv of the first half of the keys, with a softmax over all of them, by autograd."""
    q, do, k, v = (one.double() for one in (q, do, k, v))
    k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
    half = k.shape[2] // 2
    seen = torch.ones(q.shape[2], half, dtype=torch.bool, device=q.device)
    allowed = torch.cat([seen.tril() if causal else seen, seen], 1)
    scores = (q @ k.mT / WIDTH**0.5).masked_fill(~allowed, -torch.inf).detach().requires_grad_()
    values = v.detach().requires_grad_()
    o = scores.softmax(-1) @ values
    dscores, dv = torch.autograd.grad(o, (scores, values), do)
    dscores = dscores[..., :half] / WIDTH**0.5
    whole = o.detach(), scores.detach().logsumexp(-1)
    part = scores.detach()[..., :half]
    return whole, (part.softmax(-1) @ v[:, :, :half], part.logsumexp(-1)), (
        dscores @ k[:, :, :half], dscores.mT @ q, dv[:, :, :half],
    )  # fmt: skip


def farthest(device, dtype, causal, kv_heads=HEADS, tokens=48):
    """The largest difference of a block's o, lse, dq, dk, dv, each relative to its largest number."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(BATCH, heads, num, WIDTH) for heads, num in ((HEADS, tokens), (kv_heads, 2 * tokens))]
    q, k = (torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes)
    v, do = torch.randn_like(k), torch.randn_like(q)
    (o, lse), due, due_gradients = in_float64(q, k, v, do, causal)
    half = [one[:, :, :tokens] for one in (k, v)]
    got = block(q, *half, causal=causal)
    gradients = block_backward(do, q, *half, o.to(dtype), lse.to(got[1].dtype), causal=causal)
    grouped = [one.unflatten(1, (kv_heads, -1)).sum(2) for one in due_gradients[1:]]
    pairs = zip((*got, *gradients), (*due, due_gradients[0], *grouped), strict=True)
    return max(((one.double() - other).abs().max() / other.abs().max()).item() for one, other in pairs)


@pytest.mark.parametrize("kv_heads", [HEADS, 1])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("plain", [False, True])
def test_a_block_on_a_cpu(monkeypatch, plain, causal, kv_heads):
    if plain:
        monkeypatch.setattr(kernel, "kernel_for", lambda *_: PLAIN)
    assert farthest("cpu", torch.float32, causal, kv_heads) < 1e-5
    assert farthest("cpu", torch.bfloat16, causal, kv_heads) < 0.02


def test_each_device_and_dtype_has_its_kernel(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    with FakeTensorMode():
        found = {
            (dtype, tokens, width): kernel.kernel_for(*torch.empty(2, 1, 1, tokens, width, dtype=dtype, device="cuda"))
            for dtype in (torch.bfloat16, torch.float32, torch.float64)
            for tokens, width in ((64, 64), (8, 64), (64, 256), (64, 12))
        }
        assert kernel.kernel_for(*torch.empty(2, 1, 1, 8, 64)) == CPU_FLASH
    assert found == {
        (torch.bfloat16, 64, 64): GPU_CUDNN,
        (torch.bfloat16, 8, 64): GPU_FLASH,
        (torch.bfloat16, 64, 256): GPU_FLASH,
        **{(torch.float32, *size): GPU_EFFICIENT for size in ((64, 64), (8, 64), (64, 256))},
        **{(torch.float64, *size): PLAIN for size in ((64, 64), (8, 64), (64, 256))},
        **{(dtype, 64, 12): PLAIN for dtype in (torch.bfloat16, torch.float32, torch.float64)},
    }


def test_before_hopper_flash_attention_is_used(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with FakeTensorMode():
        queries = torch.empty(2, 1, 1, 64, 64, dtype=torch.bfloat16, device="cuda")
        assert kernel.kernel_for(*queries) == GPU_FLASH


@pytest.mark.parametrize(
    ("which", "dtype"), [(GPU_FLASH, torch.bfloat16), (GPU_CUDNN, torch.bfloat16), (GPU_EFFICIENT, torch.float32)]
)
@pytest.mark.parametrize("tokens", [64, 50])
def test_torch_takes_what_the_kernels_of_a_gpu_are_given(which, dtype, tokens):
    """Only arguments and shapes, without a GPU. The next test checks the numbers."""
    q, k, v, do = (torch.empty(BATCH, HEADS, tokens, WIDTH, dtype=dtype, device="meta") for _ in range(4))
    o, lse = which.forward(q, k, v, True)
    gradients = which.backward(do, q, k, v, o, lse, True)
    assert o.shape == q.shape and lse.shape == q.shape[:3] and lse.dtype == torch.float32
    assert [(one.shape, one.dtype) for one in gradients] == [(q.shape, dtype)] * 3


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kv_heads", [HEADS, 1])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("tokens", [48, 50, 130, 300, 512])
def test_a_block_on_a_gpu(tokens, causal, kv_heads):
    for dtype, most in ((torch.bfloat16, 0.02), (torch.float16, 0.005), (torch.float32, 1e-5), (torch.float64, 1e-10)):
        assert farthest("cuda", dtype, causal, kv_heads, tokens) < most, dtype


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("mask", [CAUSAL, FULL])
def test_attention_of_a_whole_sequence_on_a_gpu(mask):
    q, k, v, do = torch.randn(4, 1, 2, 700, 32, device="cuda")
    leaves = [one.requires_grad_() for one in (q, k, v)]
    got = attend_here(*leaves, mask)
    due = functional.scaled_dot_product_attention(*leaves, is_causal=mask.causal)
    for one, other in zip(torch.autograd.grad(got, leaves, do), torch.autograd.grad(due, leaves, do), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(got, due, rtol=1e-4, atol=1e-4)
