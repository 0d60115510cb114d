"""Race attention over a split sequence against torch's ring, the Ulysses of its paper, and DeepSpeed's if installed.

Forward and backward on 2 ranks. Both rings are balanced (zig-zag); torch's rotates by all-to-all, the faster of its two
methods. We call its internal functions with the CPU flash kernel, which its public interface does not support.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import NamedTuple

import shardlab
import torch
import torch.distributed as dist
from shardlab.context_parallel.attention import attend
from shardlab.context_parallel.balance import contiguous, zigzag
from shardlab.context_parallel.emulated import over_link
from shardlab.context_parallel.ring import Ring
from shardlab.context_parallel.ulysses import Ulysses
from torch import Tensor
from torch.nn import functional

from benchmarks.device import wait_for
from benchmarks.row import Row, at_most

RANKS, HEADS, WIDTH = 2, 8, 32
ASLEEP_RANKS, ASLEEP_TOKENS, STEP_SECONDS = 4, 256, 0.05  # for the ring with sleeping blocks
ROUNDS = {1024: 15, 2048: 11, 4096: 9, 8192: 5, 16384: 3}
Step = Callable[[], list[Tensor]]


class Shape(NamedTuple):
    """The inputs and the device: [1, heads, length / ranks, width] of a dtype."""

    device: str = "cpu"
    heads: int = HEADS
    width: int = WIDTH
    dtype: torch.dtype = torch.float32
    tolerance: float = 1e-3  # difference from the peer, relative to the largest number


class Seconds(NamedTuple):
    """Seconds of one step on one rank: wall clock, and CPU time, which depends less on other programs."""

    clock: float
    processor: float


def measure() -> list[Row]:
    """Return ours / the peer's, from medians of alternating steps; a step takes as long as on its slowest rank."""
    rows = rows_of(Shape(), "gloo", ROUNDS)
    for times, most in ((0.8, 0.1), (2.0, 1.0)):
        by_rank = shardlab.run(asleep, times, ranks=ASLEEP_RANKS, observe=False, timeout=60)
        without, over = (max(seconds) for seconds in zip(*by_rank, strict=True))
        rows.append(at_most(f"exposed share of a step, transfer {times:g} x compute", 1 - without / over, most))
    return rows


def rows_of(shape: Shape, transport: str, rounds_by_length: Mapping[int, int]) -> list[Row]:
    """Return the rows for each peer; with CPU seconds if the CPU does the computing."""
    rows = []
    pairs = [("torch's ring", 0.95, rings), ("Ulysses as upstream", 1.0, ulysses)]
    if shape.device == "cuda":
        pairs.insert(1, ("torch's ring with cuDNN", 0.95, rings_by_cudnn))
    if find_spec("deepspeed"):
        pairs.append(("DeepSpeed's Ulysses", 1.0, deepspeeds_ulysses))
    else:
        print("DeepSpeed is not installed: its Ulysses is not measured", file=sys.stderr)
    for name, most, pair in pairs:
        by_rank = shardlab.run(
            races, pair, rounds_by_length, shape, ranks=RANKS, transport=transport, observe=False, timeout=1800
        )
        for length, of_length in zip(rounds_by_length, zip(*by_rank, strict=True), strict=True):
            steps = [[*zip(*side, strict=True)] for side in zip(*of_length, strict=True)]  # ours and the peer's
            clock = [median(max(one.clock for one in ranks) for ranks in side) for side in steps]
            processor = [median(sum(one.processor for one in ranks) for ranks in side) for side in steps]
            for what, (ours, peer) in (("", clock), (", processor", processor))[: 2 if shape.device == "cpu" else 1]:
                rows.append(at_most(f"{length:,} tokens{what}: ours / {name} ({peer:.4f} s)", ours / peer, most))
    return rows


def asleep(times: float) -> tuple[float, float]:
    """Return the seconds of a ring's forward and backward with sleeping blocks: without a link, and over one on which
    sending a block of keys and values takes `times` as long as attending to it.
    """
    from shardlab.context_parallel import online

    each = STEP_SECONDS / (ASLEEP_TOKENS**2 / 2)  # seconds per pair: a step of a balanced causal ring has n^2 / 2

    def sleep_over(q: Tensor, k: Tensor, causal: bool, factor: float) -> None:
        time.sleep(factor * each * q.shape[2] * k.shape[2] * (0.5 if causal else 1.0))

    def block(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> tuple[Tensor, Tensor]:
        sleep_over(q, k, causal, 1.0)
        return torch.zeros_like(q), q.new_zeros(q.shape[:3])

    def block_backward(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, causal: bool):
        sleep_over(q, k, causal, 2.5)  # five products where the forward has two (arXiv 2307.08691, section 3.1.2)
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)

    online.block, online.block_backward = block, block_backward
    num_bytes = 2 * HEADS * ASLEEP_TOKENS * WIDTH * 4
    layout = zigzag(ASLEEP_RANKS * ASLEEP_TOKENS, ASLEEP_RANKS)
    found = []
    for method in (Ring(), Ring(), Ring(over_link(num_bytes / (times * STEP_SECONDS)))):  # the first connects
        q, k, v = (torch.zeros(1, HEADS, ASLEEP_TOKENS, WIDTH, requires_grad=True) for _ in range(3))
        dist.barrier()
        began = time.perf_counter()
        attend(q, k, v, layout=layout, group=None, method=method, agreed=True).sum().backward()
        found.append(time.perf_counter() - began)
    return found[1], found[2]


def races(
    pair: Callable, rounds_by_length: Mapping[int, int], shape: Shape
) -> list[tuple[list[Seconds], list[Seconds]]]:
    """Run a race for each length, in one process per rank."""
    return [race(pair, length, rounds, shape) for length, rounds in rounds_by_length.items()]


def race(pair: Callable, length: int, rounds: int, shape: Shape) -> tuple[list[Seconds], list[Seconds]]:
    """Return the seconds of each step, ours and the peer's, alternating; results and gradients must be equal."""
    torch.set_num_threads(1)
    steps = pair(length, shape)
    times: tuple[list[Seconds], list[Seconds]] = ([], [])
    for number in range(rounds + 1):
        results = {}
        for side in (0, 1) if number % 2 else (1, 0):
            dist.barrier()
            wait_for(shape.device)
            began, worked = time.perf_counter(), time.process_time()
            results[side] = steps[side]()
            wait_for(shape.device)
            if number:  # the first step sets up connections
                times[side].append(Seconds(time.perf_counter() - began, time.process_time() - worked))
        for one, other in zip(results[0], results[1], strict=True):
            if (one - other).abs().max() > shape.tolerance * other.abs().max():
                raise RuntimeError(f"step {number} at {length} tokens: ours and the peer's differ")
    return times


def inputs(length: int, shape: Shape) -> list[Tensor]:
    """Return q, k, v of this rank, and the gradient of the output."""
    generator, size = torch.Generator().manual_seed(dist.get_rank()), (1, shape.heads, length // RANKS, shape.width)
    return [torch.randn(size, generator=generator).to(shape.device, shape.dtype) for _ in range(4)]


def stepping(attention: Callable[..., Tensor], qkv: list[Tensor], do: Tensor) -> Step:
    """Return a step that runs an autograd attention forward and backward."""
    leaves = [one.clone().requires_grad_() for one in qkv]

    def step() -> list[Tensor]:
        o = attention(*leaves)
        return [o.detach(), *torch.autograd.grad(o, leaves, do)]

    return step


def rings_by_cudnn(length: int, shape: Shape) -> tuple[Step, Step]:
    """Ours and torch's ring, where torch's uses the same kernel as ours on a Hopper GPU."""
    return rings(length, shape, "cudnn")


def rings(length: int, shape: Shape, kernel: str = "flash") -> tuple[Step, Step]:
    """Ours and torch's ring."""
    import torch.distributed.tensor.experimental._context_parallel._attention as peer

    *qkv, do = inputs(length, shape)
    layout, group = zigzag(length, RANKS), dist.distributed_c10d._get_default_group()
    peer._cp_options.enable_load_balance = True
    peer.set_rotate_method("alltoall")
    flash, flash_backward, of_backward = kernel_of(shape.device, kernel)
    options = {"is_causal": True, "dropout_p": 0.0, "scale": None}

    def theirs() -> list[Tensor]:
        q, k, v = qkv
        with torch.no_grad():
            o, lse, *_ = peer._templated_ring_attention(group, 2, flash, query=q, key=k, value=v, **options)
            gradients = peer._templated_ring_attention_backward(
                group, 2, flash_backward, grad_out=do, grad_out_name="grad_out", query=q, key=k, value=v, out=o,
                logsumexp=lse, **options, **of_backward,
            )  # fmt: skip
        return [o, *gradients[:3]]

    def ours(*leaves: Tensor) -> Tensor:
        return attend(*leaves, layout=layout, group=group, method=Ring(), agreed=True)

    return stepping(ours, qkv, do), theirs


def kernel_of(device: str, name: str) -> tuple[Callable, Callable, dict]:
    """Return the kernel that torch's ring is called with, its backward, and extra arguments of the backward."""
    if device == "cpu":
        from shardlab.context_parallel.kernel import flash, flash_backward

        return flash, flash_backward, {}
    from shardlab.context_parallel.kernel import aten

    state = torch.empty(2, dtype=torch.uint64, device=device)  # unused without dropout
    told = {"cum_seq_q": None, "cum_seq_k": None, "max_q": 0, "max_k": 0}
    told |= {"philox_seed": state, "philox_offset": state[:0]}
    if name == "cudnn":
        forward = partial(aten._scaled_dot_product_cudnn_attention, attn_bias=None, compute_log_sumexp=True)
        return forward, aten._scaled_dot_product_cudnn_attention_backward, told | {"attn_bias": None}
    return aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_flash_attention_backward, told


class _AllToAll(torch.autograd.Function):
    """Scatter heads and gather tokens, or the reverse, one tensor at a time (DeepSpeed, sequence/layer.py)."""

    @staticmethod
    def forward(ctx, x: Tensor, scatter: int, gather: int) -> Tensor:
        ctx.dims = gather, scatter
        sent = torch.stack(x.chunk(RANKS, scatter)).contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        return torch.cat(received.unbind(0), gather).contiguous()

    @staticmethod
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _AllToAll.apply(gradients[0], *ctx.dims), None, None


def ulysses(length: int, shape: Shape) -> tuple[Step, Step]:
    """Ours, and separate all-to-alls of q, k, v and o around torch's attention."""
    *qkv, do = inputs(length, shape)

    def theirs(*leaves: Tensor) -> Tensor:
        q, k, v = (_AllToAll.apply(one, 1, 2) for one in leaves)
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return _AllToAll.apply(o, 2, 1)

    return our_ulysses(qkv, do), stepping(theirs, qkv, do)


def our_ulysses(qkv: list[Tensor], do: Tensor) -> Step:
    layout = contiguous(RANKS * do.shape[2], RANKS)

    def ours(*leaves: Tensor) -> Tensor:
        return attend(*leaves, layout=layout, group=dist.group.WORLD, method=Ulysses(), agreed=True)

    return stepping(ours, qkv, do)


def deepspeeds_ulysses(length: int, shape: Shape) -> tuple[Step, Step]:
    """Ours, and `DistributedAttention` around torch's attention, on tensors in its layout [B, S, heads, D]."""
    os.environ |= {"DS_ACCELERATOR": shape.device, "DS_BUILD_OPS": "0"}
    import deepspeed.comm  # type: ignore[import-not-found]
    from deepspeed.sequence.layer import DistributedAttention  # type: ignore[import-not-found]

    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]  # not compiled
    deepspeed.comm.init_distributed("gloo" if shape.device == "cpu" else "nccl", verbose=False)

    class Local(torch.nn.Module):
        def forward(self, *qkv: Tensor) -> Tensor:
            q, k, v = (one.transpose(1, 2) for one in qkv)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    *qkv, do = inputs(length, shape)
    layer = DistributedAttention(Local(), dist.group.WORLD, scatter_idx=2, gather_idx=1)
    its_own = [one.transpose(1, 2).contiguous() for one in (*qkv, do)]
    step = stepping(lambda *leaves: layer(*leaves, 0), its_own[:3], its_own[3])
    return our_ulysses(qkv, do), lambda: [one.transpose(1, 2) for one in step()]


if __name__ == "__main__":
    for row in measure():
        print(row, flush=True)
