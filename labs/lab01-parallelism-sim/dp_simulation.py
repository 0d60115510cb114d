"""Data parallelism: bytes that a rank sends to average gradients, and the step's time, predicted beside real ranks."""

import time
from typing import Annotated

import shardlab
import typer
from shardlab.costs.step import exposed
from shardlab.costs.traffic import all_reduce_seconds, fit_alpha_beta, ring_all_reduce_bytes


def train_step(width: int, samples: int) -> tuple[float, float, float]:
    """On each rank: bytes sent, seconds of forward and backward, seconds of the all-reduce of every gradient."""
    import torch
    import torch.distributed as dist
    from shardlab import meter

    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    rows = torch.randn(samples, width)
    seconds = []
    for _ in range(3):  # the first makes connections
        model.zero_grad()
        dist.barrier()
        began = time.monotonic()
        model(rows).square().mean().backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        computed = time.monotonic()
        with meter.record() as bill:
            dist.all_reduce(flat)
        seconds.append((computed - began, time.monotonic() - computed))
    return bill.sent_bytes, min(one for one, _ in seconds), min(one for _, one in seconds)


def link_of_this_machine(ranks: int) -> tuple[float, float]:
    """alpha and beta from two all-reduces of different size, measured between the same ranks."""
    samples = []
    for num_bytes, seconds in shardlab.run(time_two_sizes, ranks=ranks)[0]:
        samples.append((2 * (ranks - 1), ring_all_reduce_bytes(ranks, num_bytes), seconds))
    return fit_alpha_beta(samples)


def time_two_sizes() -> list[tuple[int, float]]:
    import torch
    import torch.distributed as dist

    found = []
    for elements in (256, 2**20):
        tensor, seconds = torch.ones(elements), []
        for _ in range(5):
            dist.barrier()
            began = time.monotonic()
            dist.all_reduce(tensor)
            seconds.append(time.monotonic() - began)
        found.append((4 * elements, min(seconds)))
    return found


def main(
    ranks: Annotated[int, typer.Option(min=2, max=16, help="Data-parallel ranks.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of the two layers.")] = 512,
    samples: Annotated[int, typer.Option(min=1, help="Rows for each rank.")] = 256,
) -> None:
    """Predict what data parallelism sends and how long it takes, then measure it on real ranks of this machine."""
    alpha, beta = link_of_this_machine(ranks)
    num_bytes = 4 * 2 * (width * width + width)
    by_rank = shardlab.run(train_step, width, samples, ranks=ranks, timeout=120)
    sent, compute, reduce = by_rank[0][0], max(one[1] for one in by_rank), max(one[2] for one in by_rank)
    predicted = all_reduce_seconds(ranks, num_bytes, alpha=alpha, beta=beta)

    typer.echo(f"link of this machine: alpha {alpha * 1e6:.0f} us a message, {1e-9 / beta if beta else 0:.2f} GB/s")
    typer.echo(f"{'':28}{'predicted':>12}{'measured':>12}")
    typer.echo(f"{'bytes sent by a rank':28}{ring_all_reduce_bytes(ranks, num_bytes):12.0f}{sent:12.0f}")
    typer.echo(f"{'all-reduce, ms':28}{predicted * 1e3:12.2f}{reduce * 1e3:12.2f}")
    typer.echo(
        f"{'efficiency, no overlap':28}{compute / (compute + predicted):12.0%}{compute / (compute + reduce):12.0%}"
    )
    hidden = compute / (compute + exposed(predicted, compute * 2 / 3, 1.0))
    typer.echo(f"{'efficiency, overlapped':28}{hidden:12.0%}{'-':>12}")


if __name__ == "__main__":
    typer.run(main)
