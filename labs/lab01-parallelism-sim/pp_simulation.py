"""Pipeline parallelism: the bubble by formula, by simulation, and on real ranks whose stages sleep or compute."""

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import shardlab
import typer
from beside import WARM_UP, CalibrationFile, FigureFile, calibration_for
from shardlab.costs.clock.calibrated import linear_layer_seconds, message_between_stages
from shardlab.costs.clock.calibration import Calibration
from shardlab.costs.clock.step import bubble_share
from shardlab.pipeline_parallel.builders import BUILDERS, NAMES
from shardlab.pipeline_parallel.durations import Durations
from shardlab.pipeline_parallel.schedule import num_microbatches, num_stages, stages_of_rank
from shardlab.pipeline_parallel.simulation import Timeline, peak_activations, simulate

if TYPE_CHECKING:
    from shardlab.pipeline_parallel.execution import RankTimes
    from shardlab.pipeline_parallel.schedule import Schedule

FP32, LAYERS = 4, 3  # linear layers with ReLU per stage, with --compute


def compute_steps(schedule: "Schedule", width: int, rows: int, rounds: int) -> "list[RankTimes]":
    """On each rank: the slot times of each round, with stages of real layers and messages of rows x width."""
    import torch
    import torch.distributed as dist
    from shardlab.pipeline_parallel.execution import execute
    from shardlab.pipeline_parallel.stages import ModuleStage
    from torch import nn

    torch.set_num_threads(1)
    stages, microbatches = num_stages(schedule), num_microbatches(schedule)
    batches = [torch.randn(rows, width) for _ in range(microbatches)]

    def layers() -> nn.Module:
        return nn.Sequential(*[part for _ in range(LAYERS) for part in (nn.Linear(width, width), nn.ReLU())])

    held = {
        stage: ModuleStage(
            layers(),
            inputs=batches if stage == 0 else None,
            input_like=None if stage == 0 else batches[0],
            loss=(lambda output, _: output.square().mean()) if stage == stages - 1 else None,
            loss_weight=1 / microbatches,
        )
        for stage in stages_of_rank(schedule, dist.get_rank())
    }
    times = []
    for _ in range(rounds + WARM_UP):
        for stage in held.values():
            stage.module.zero_grad()
        dist.barrier()
        times.append(execute(schedule, held, group=dist.group.WORLD))
    return times[WARM_UP:]


def durations_here(here: Calibration, schedule: "Schedule", width: int, rows: int) -> Durations:
    """Seconds of F, I and W of each stage and of a message. The first stage's first layer has no input gradient.

    Ranks that share cores slow each other down.
    """
    stages = num_stages(schedule)
    slowdown = here.of_ranks(len(schedule)).slowdown
    forward, inputs, weights = (LAYERS * slowdown * seconds for seconds in linear_layer_seconds(here, rows, width))
    return Durations(
        forward=[forward] * stages,
        input_gradient=[inputs * (LAYERS - 1) / LAYERS, *[inputs] * (stages - 1)],
        weight_gradient=[weights] * stages,
        message=message_between_stages(here, len(schedule), FP32 * rows * width) if len(schedule) > 1 else 0.0,
    )


def predict(here: Calibration, schedule: "Schedule", width: int, rows: int) -> float:
    """Seconds from the start of the first slot to the end of the last one."""
    return simulate(schedule, durations_here(here, schedule, width, rows)).makespan


def measure(schedule: "Schedule", width: int, rows: int, rounds: int) -> Timeline:
    """The timeline of the median round, with stages that compute."""
    from shardlab.pipeline_parallel.execution import measured

    by_rank = shardlab.run(
        compute_steps, schedule, width, rows, rounds, ranks=len(schedule), timeout=240, transport="gloo"
    )
    timelines = [measured(schedule, ranks) for ranks in zip(*by_rank, strict=True)]
    middle = median([one.makespan for one in timelines])
    return min(timelines, key=lambda one: abs(one.makespan - middle))


def draw(simulated: Timeline, durations: Durations, real: Timeline, path: Path, name: str) -> str:
    """Draw the simulated timeline above the measured one; saves the figure and returns its description."""
    from shardlab.figures import draw_timelines, new_rows
    from shardlab.figures.page import png

    picture, axes = new_rows(9, 2.2 + 0.8 * len(real.schedule), 2)
    words = draw_timelines(axes, [(f"{name}, simulated", simulated.schedule), (f"{name}, measured", real)], durations)
    path.write_bytes(png(picture))
    return words


def main(
    schedule: Annotated[str, typer.Option(help="gpipe, 1f1b, interleaved, zb-h1, zbv, ...")] = "1f1b",
    ranks: Annotated[int, typer.Option(min=1, max=16, help="Number of stages, p.")] = 4,
    microbatches: Annotated[int, typer.Option(min=1, help="Number of microbatches, m.")] = 8,
    milliseconds: Annotated[float, typer.Option(min=1, help="How long F, I and W each sleep.")] = 20.0,
    compute: Annotated[int, typer.Option(min=0, help="Compute with layers of this width instead of sleeping.")] = 0,
    rows: Annotated[int, typer.Option(min=1, help="Rows per microbatch, with --compute.")] = 192,
    calibration: CalibrationFile = None,
    figure: FigureFile = None,
) -> None:
    """Predict a schedule's bubble, then measure it with real messages between ranks whose stages sleep or compute."""
    from shardlab.pipeline_parallel.emulated import run_emulated

    if schedule not in BUILDERS:
        raise typer.BadParameter(f"unknown schedule {schedule!r}: use one of {', '.join(BUILDERS)}")
    try:
        built = BUILDERS[schedule](ranks, microbatches)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if compute:
        unit, durations = 1.0, durations_here(calibration_for(ranks, calibration), built, compute, rows)
        timeline, real = simulate(built, durations), measure(built, compute, rows, rounds=5)
    else:
        unit, durations = milliseconds / 1e3, Durations()
        timeline, real = simulate(built), run_emulated(built, seconds_per_unit=unit)

    typer.echo(f"{schedule}, p = {ranks}, m = {microbatches}{'':8}{'simulated':>12}{'measured':>12}")
    typer.echo(f"{'seconds':28}{unit * timeline.makespan:12.3f}{unit * real.makespan:12.3f}")
    typer.echo(f"{'idle share, worst rank':28}{timeline.bubble:12.1%}{real.bubble:12.1%}")
    if schedule in ("gpipe", "1f1b"):
        typer.echo(f"{'(p-1)/(m+p-1)':28}{bubble_share(ranks, microbatches):12.1%}")
    typer.echo(f"{'error of the step':28}{timeline.makespan / real.makespan - 1:+12.1%}")
    typer.echo(f"peak number of microbatches held, by rank: {' '.join(map(str, peak_activations(built)))}")
    if figure is not None:
        typer.echo(draw(timeline, durations, real, figure, NAMES[schedule]))


if __name__ == "__main__":
    typer.run(main)
