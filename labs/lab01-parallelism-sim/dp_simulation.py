"""Data parallelism: bytes sent to average gradients and the time of a step, predicted and measured."""

import time
from typing import Annotated

import shardlab
import typer
from beside import WARM_UP, CalibrationFile, FigureFile, Rounds, Step, calibration_for, draw, show, step_of
from shardlab.costs.clock.calibrated import mlp_data_parallel_seconds
from shardlab.costs.clock.calibration import Calibration
from shardlab.costs.clock.parts import exposed
from shardlab.costs.traffic import ring_all_reduce_bytes

FP32 = 4


def train_steps(width: int, samples: int, rounds: int) -> tuple[float, list[tuple[float, float]]]:
    """On each rank: bytes sent per step and, for each round, the seconds of the passes and of the whole step."""
    import torch
    import torch.distributed as dist
    from shardlab import meter

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    rows = torch.randn(samples, width)
    seconds = []
    for _ in range(rounds + WARM_UP):
        model.zero_grad()
        dist.barrier()
        began = time.perf_counter()
        model(rows).square().mean().backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        computed = time.perf_counter()
        with meter.record() as bill:
            dist.all_reduce(flat)
        seconds.append((computed - began, time.perf_counter() - began))
    return bill.sent_bytes, seconds[WARM_UP:]


def num_bytes(width: int) -> int:
    """Bytes of the gradients of two layers with biases."""
    return FP32 * 2 * (width * width + width)


def predict(here: Calibration, ranks: int, width: int, samples: int) -> Step:
    return Step(*mlp_data_parallel_seconds(here, ranks, samples, width))


def measure(ranks: int, width: int, samples: int, rounds: int) -> tuple[float, Step]:
    """Bytes that a rank sends, and the step."""
    by_rank = shardlab.run(train_steps, width, samples, rounds, ranks=ranks, timeout=120, transport="gloo")
    return by_rank[0][0], step_of([one for _, one in by_rank])


def main(
    ranks: Annotated[int, typer.Option(min=2, max=16, help="Data-parallel ranks.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of the two layers.")] = 512,
    samples: Annotated[int, typer.Option(min=1, help="Rows per rank.")] = 256,
    rounds: Rounds = 15,
    calibration: CalibrationFile = None,
    figure: FigureFile = None,
) -> None:
    """Predict what data parallelism sends and how long a step takes, then measure it on real ranks of this machine."""
    here = calibration_for(ranks, calibration)
    predicted = predict(here, ranks, width, samples)
    sent, measured = measure(ranks, width, samples, rounds)

    alpha, beta = here.of_ranks(ranks).links["all_reduce"]
    typer.echo(f"link of this machine: alpha {alpha * 1e6:.0f} us per message, {1e-9 / beta if beta else 0:.2f} GB/s")
    typer.echo(f"{ranks} ranks{'':21}{'predicted':>12}{'measured':>12}")
    typer.echo(f"{'bytes sent by a rank':28}{ring_all_reduce_bytes(ranks, num_bytes(width)):12.0f}{sent:12.0f}")
    show(predicted, measured)
    shares = [one.compute / one.total for one in (predicted, measured)]
    typer.echo(f"{'efficiency, no overlap':28}{shares[0]:12.0%}{shares[1]:12.0%}")
    hidden = predicted.compute + exposed(predicted.messages, predicted.compute * 2 / 3, 1.0)
    typer.echo(f"{'efficiency, all overlapped':28}{predicted.compute / hidden:12.0%}{'-':>12}")
    if figure is not None:
        title = f"A step of {ranks} data-parallel ranks: messages take {measured.messages / measured.total:.0%}"
        typer.echo(draw({"predicted": predicted, "measured": measured}, figure, title))


if __name__ == "__main__":
    typer.run(main)
