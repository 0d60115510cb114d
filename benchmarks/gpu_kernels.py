"""Measure how fast one GPU computes, by shape: matmuls, attention, elementwise passes.

`python -m benchmarks.gpu_kernels FILE` writes a CSV: kind, sizes, median microseconds, FLOP/s or bytes/s. The cost
model's fractions of data-sheet peaks are compared with it; our measured files are in benchmarks/results/.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from statistics import median

import torch
from torch.nn import functional

ROUNDS = 15
WIDTHS = [(1024, 1024), (2048, 2048), (4096, 4096), (4096, 11008), (8192, 8192), (8192, 28672), (12288, 12288)]
ROWS = [512, 1024, 2048, 4096, 8192, 16384]
HEADER = ("gpu", "kind", "rows", "inner", "columns", "microseconds", "per_second")


def seconds_of(work: Callable[[], object]) -> float:
    """Return the median seconds of one call, timed with events, after three warm-up calls."""
    for _ in range(3):
        work()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(4):  # so that each launch overlaps the previous call
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4e3)
    return median(times)


def products() -> Iterator[tuple]:
    """bf16: [rows, inner] @ [inner, columns], whole and split in 2, 4 and 8 as under tensor parallelism."""
    shapes = {(rows, inner, columns) for rows in ROWS for inner, columns in WIDTHS}
    shapes |= {(rows, inner, columns // t) for rows in ROWS[2:5] for inner, columns in WIDTHS for t in (2, 4, 8)}
    shapes |= {(rows, columns // t, inner) for rows in ROWS[2:5] for inner, columns in WIDTHS for t in (2, 4, 8)}
    for rows, inner, columns in sorted(shapes):
        a, b = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((rows, inner), (columns, inner)))
        seconds = seconds_of(lambda a=a, b=b: functional.linear(a, b))
        yield "product", rows, inner, columns, seconds, 2 * rows * inner * columns / seconds


def attentions() -> Iterator[tuple]:
    """Causal fused bf16: rows = sequence, inner = head dimension, columns = heads x batch; forward, then backward."""
    for sequence, dim, heads in ((2048, 64, 64), (2048, 128, 32), (4096, 128, 32), (8192, 128, 32), (8192, 128, 8)):
        shape = (1, heads, sequence, dim)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))

        def forward(q=q, k=k, v=v):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        flops = 2 * sequence * sequence * dim * heads  # half of QK^T and of AV
        seconds = seconds_of(forward)
        yield "attention forward", sequence, dim, heads, seconds, flops / seconds
        out = forward()
        seconds = seconds_of(lambda out=out: out.backward(torch.ones_like(out), retain_graph=True))
        yield "attention backward", sequence, dim, heads, seconds, 2.5 * flops / seconds


def passes() -> Iterator[tuple]:
    """Elementwise work on [rows, columns] in bf16, in bytes read and written per second; Adam's in fp32."""
    for rows, columns in ((4096, 4096), (4096, 14336), (8192, 8192), (16384, 8192)):
        x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
        weight = torch.ones(columns, device="cuda", dtype=torch.bfloat16)
        size = x.numel() * 2
        for name, work, moved in (
            ("copy", lambda x=x: x.clone(), 2 * size),
            ("add", lambda x=x: x + x, 2 * size),
            ("gelu", lambda x=x: functional.gelu(x), 2 * size),
            ("norm", lambda x=x, w=weight: functional.layer_norm(x, x.shape[1:], w), 2 * size),
        ):
            seconds = seconds_of(work)
            yield name, rows, 0, columns, seconds, moved / seconds
    parameter = torch.nn.Parameter(torch.randn(2**27, device="cuda"))
    parameter.grad = torch.randn_like(parameter)
    for name, fused in (("adam", False), ("adam fused", True)):
        seconds = seconds_of(torch.optim.AdamW([parameter], fused=fused, foreach=not fused).step)
        yield name, parameter.numel(), 0, 1, seconds, 28 * parameter.numel() / seconds


def main(path: str) -> None:
    """Measure everything and write the CSV."""
    gpu = torch.cuda.get_device_name()
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(HEADER)
        for kind, rows, inner, columns, seconds, speed in (*products(), *attentions(), *passes()):
            table.writerow((gpu, kind, rows, inner, columns, f"{seconds * 1e6:.2f}", f"{speed:.4g}"))


if __name__ == "__main__":
    main(sys.argv[1])
