"""Tensor parallelism: an MLP split by columns, then rows; its two all-reduces of bsh, predicted and measured."""

import time
from typing import Annotated

import shardlab
import typer
from beside import WARM_UP, CalibrationFile, FigureFile, Rounds, Step, calibration_for, draw, show, step_of
from shardlab.costs.axis_traffic import BF16, tp_layer_bytes
from shardlab.costs.clock.calibrated import mlp_tensor_parallel_seconds
from shardlab.costs.clock.calibration import Calibration
from shardlab.costs.layout import Layout, check_layout
from shardlab.costs.models.model import divisors
from shardlab.costs.models.zoo import find_model
from shardlab.costs.traffic import ring_all_reduce_bytes

MOST_RANKS = 16


def mlp_steps(tokens: int, hidden: int, width: int, rounds: int) -> tuple[float, int, float, list[tuple[float, float]]]:
    """On each rank: bytes sent, all-reduces, the largest difference from the whole MLP on one rank, and for each round
    the seconds of compute and of the whole step.
    """
    import torch
    import torch.distributed as dist
    from shardlab import meter

    torch.set_num_threads(1)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, first, second = torch.randn(tokens, hidden), torch.randn(hidden, width), torch.randn(width, hidden)
    columns = first.chunk(size, dim=1)[rank].contiguous().requires_grad_()
    rows = second.chunk(size, dim=0)[rank].contiguous().requires_grad_()
    whole = x.clone().requires_grad_()
    ((whole @ first).relu() @ second).sum().backward()

    upstream, seconds = torch.ones(tokens, hidden), []
    for _ in range(rounds + WARM_UP):
        mine = x.clone().requires_grad_()
        columns.grad = rows.grad = None
        dist.barrier()
        began = time.perf_counter()
        with meter.record() as bill:
            part = (mine @ columns).relu() @ rows
            result = part.detach().clone()
            half = time.perf_counter()
            dist.all_reduce(result)  # forward: sum over the ranks' rows
            again = time.perf_counter()
            part.backward(upstream)
            done = time.perf_counter()
            assert mine.grad is not None
            dist.all_reduce(mine.grad)  # backward: sum over the ranks' columns
        seconds.append((half - began + done - again, time.perf_counter() - began))
    assert mine.grad is not None and whole.grad is not None
    wrong = (result - (x @ first).relu() @ second).abs().max() / result.abs().max()
    wrong_gradient = (mine.grad - whole.grad).abs().max() / whole.grad.abs().max()
    worst = max(wrong.item(), wrong_gradient.item())
    return bill.sent_bytes, bill.count("all_reduce"), worst, seconds[WARM_UP:]


def predict(here: Calibration, ranks: int, tokens: int, hidden: int) -> Step:
    return Step(*mlp_tensor_parallel_seconds(here, ranks, tokens, hidden))


def measure(ranks: int, tokens: int, hidden: int, rounds: int) -> tuple[float, int, float, Step]:
    """Bytes that a rank sends, all-reduces, the largest difference from one rank, and the step."""
    by_rank = shardlab.run(mlp_steps, tokens, hidden, 4 * hidden, rounds, ranks=ranks, timeout=120, transport="gloo")
    sent, calls = by_rank[0][:2]
    return sent, calls, max(one[2] for one in by_rank), step_of([one[3] for one in by_rank])


def main(
    ranks: Annotated[int, typer.Option(min=1, max=MOST_RANKS, help="Number of tensor-parallel ranks, t.")] = 2,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens per microbatch, b times s.")] = 512,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden size h; the MLP is 4h wide.")] = 384,
    model: Annotated[str, typer.Option(help="A large model whose traffic to predict as well.")] = "gpt3-175b",
    rounds: Rounds = 15,
    calibration: CalibrationFile = None,
    figure: FigureFile = None,
) -> None:
    """Predict the traffic of one tensor-parallel MLP, measure it on real ranks, and predict a large model's traffic."""
    if 4 * hidden % ranks:
        fit = ", ".join(str(size) for size in divisors(4 * hidden) if size <= MOST_RANKS)
        raise typer.BadParameter(f"a width of {4 * hidden} cannot be split over {ranks} ranks: use one of {fit}")
    try:
        large = find_model(model)
        check_layout(large, Layout(tp=ranks))
    except ValueError as error:
        raise typer.BadParameter(f"--model {model}: {error}") from None
    predicted = predict(calibration_for(ranks, calibration), ranks, tokens, hidden)
    sent, calls, worst, measured = measure(ranks, tokens, hidden, rounds)

    typer.echo(f"{'MLP, forward and backward':28}{'predicted':>12}{'measured':>12}")
    typer.echo(f"{'all-reduces':28}{2:12}{calls:12}")
    typer.echo(f"{'bytes sent by a rank':28}{2 * ring_all_reduce_bytes(ranks, 4 * tokens * hidden):12.0f}{sent:12.0f}")
    show(predicted, measured)
    typer.echo(f"largest relative difference from one rank: {worst:.1e}")
    layer = tp_layer_bytes(large, Layout(tp=ranks))
    typer.echo(
        f"{large.name}, t = {ranks}: {layer / 1e6:.1f} MB per layer, microbatch and direction, "
        f"{BF16 * large.sequence * large.hidden / 1e6:.1f} MB payload per all-reduce"
    )
    if figure is not None:
        title = f"An MLP on {ranks} tensor-parallel ranks: messages take {measured.messages / measured.total:.0%}"
        typer.echo(draw({"predicted": predicted, "measured": measured}, figure, title))


if __name__ == "__main__":
    typer.run(main)
