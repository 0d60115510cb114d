"""Pipeline parallelism: the bubble by formula, by simulation, and on real ranks whose stages sleep."""

from typing import Annotated

import typer
from shardlab.costs.step import bubble_share
from shardlab.pipeline_parallel.builders import BUILDERS
from shardlab.pipeline_parallel.simulate import peak_activations, simulate


def main(
    schedule: Annotated[str, typer.Option(help="gpipe, 1f1b, interleaved, zb-h1, zbv, ...")] = "1f1b",
    ranks: Annotated[int, typer.Option(min=1, max=16, help="Stages p.")] = 4,
    microbatches: Annotated[int, typer.Option(min=1, help="m.")] = 8,
    milliseconds: Annotated[float, typer.Option(min=1, help="What F, I and W sleep each.")] = 20.0,
) -> None:
    """Predict a schedule's bubble, then measure it: real messages between real ranks, stages that sleep."""
    from shardlab.pipeline_parallel.asleep import run_asleep

    if schedule not in BUILDERS:
        raise typer.BadParameter(f"there is no schedule {schedule!r}: use one of {', '.join(BUILDERS)}")
    unit = milliseconds / 1e3
    try:
        built = BUILDERS[schedule](ranks, microbatches)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    timeline = simulate(built)
    real = run_asleep(built, seconds_per_unit=unit)

    typer.echo(f"{schedule}, p = {ranks}, m = {microbatches}{'':8}{'simulated':>12}{'measured':>12}")
    typer.echo(f"{'seconds':28}{unit * timeline.makespan:12.3f}{unit * real.makespan:12.3f}")
    shares = [max(one.idle) / one.makespan for one in (timeline, real)]
    typer.echo(f"{'idle share, worst rank':28}{shares[0]:12.1%}{shares[1]:12.1%}")
    if schedule in ("gpipe", "1f1b"):
        typer.echo(f"{'(p-1)/(m+p-1)':28}{bubble_share(ranks, microbatches):12.1%}")
    typer.echo(f"microbatches held at most, by rank: {' '.join(map(str, peak_activations(built)))}")


if __name__ == "__main__":
    typer.run(main)
