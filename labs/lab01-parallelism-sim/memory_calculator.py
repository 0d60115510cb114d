"""Memory: formulas for a model and a layout, and model states measured on a small model on this machine."""

from pathlib import Path
from typing import Annotated

import typer
from beside import FigureFile
from shardlab.costs.hardware import GIB
from shardlab.costs.layout import Layout, check_layout
from shardlab.costs.memory.stage import MemoryBytes, peak_memory
from shardlab.costs.memory.states import bytes_per_parameter, zero_state_bytes
from shardlab.costs.models.model import num_parameters
from shardlab.costs.models.zoo import load_model


def measured_states(width: int) -> tuple[int, int, int, int]:
    """Parameters, and bytes of weights, gradients and state, of a real fp32 model after one step of Adam."""
    import torch
    from shardlab.meter import bytes_held

    model = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width))
    adam = torch.optim.Adam(model.parameters())
    model(torch.randn(2, width)).sum().backward()
    adam.step()
    held = bytes_held(model, adam)
    return sum(p.numel() for p in model.parameters()), held.parameters, held.gradients, held.optimizer_state


def draw(rows: dict[str, MemoryBytes], path: Path, title: str) -> str:
    """Draw a bar per ZeRO stage and recomputation; saves the figure and returns its description."""
    from shardlab.figures import draw_memory, new_axes
    from shardlab.figures.page import png

    bars = {
        label: {
            "parameters": held.states.parameters,
            "gradients": held.states.gradients,
            "optimizer": held.states.optimizer,
            "activations": held.total - held.states.total,
        }
        for label, held in rows.items()
    }
    drawing, ax = new_axes(8.0, 1.2 + 0.4 * len(bars))
    words = draw_memory(ax, bars, title=title, unit="GiB")
    path.write_bytes(png(drawing))
    return words


def main(
    model: Annotated[str, typer.Option(help="A model name, or a JSON file of sizes.")] = "llama2-7b",
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline parallel size.")] = 1,
    dp: Annotated[int, typer.Option(help="Data parallel size.")] = 8,
    microbatch: Annotated[int, typer.Option(help="Sequences per microbatch.")] = 1,
    microbatches: Annotated[int, typer.Option(help="Microbatches per step.")] = 8,
    measure: Annotated[bool, typer.Option(help="Also measure a small model's bytes (imports torch).")] = True,
    figure: FigureFile = None,
) -> None:
    """Show memory of the fullest rank by ZeRO stage and recomputation; check 16 bytes per parameter on a real model."""
    rows: dict[str, MemoryBytes] = {}
    try:
        wanted = load_model(model)
        typer.echo(f"{wanted.name}: {num_parameters(wanted) / 1e9:.2f}B parameters; GiB of the fullest rank")
        typer.echo(f"{bytes_per_parameter()}, as in the ZeRO paper;")
        fp32 = zero_state_bytes(1, 1, 0, gradient_bytes=4).total
        typer.echo(f"`shardlab memory` counts {fp32:g} because it sums gradients over microbatches in fp32")
        typer.echo("(rest: logits, and whole layers held by ZeRO-3; part of the activations in the figure)")
        typer.echo(f"{'ZeRO':>4} {'recompute':10}{'states':>9}{'activations':>13}{'rest':>8}{'total':>9}")
        for zero in range(4):
            for recompute in ("none", "full"):
                layout = Layout(
                    tp=tp,
                    pp=pp,
                    dp=dp,
                    zero=zero,
                    microbatch=microbatch,
                    num_microbatches=microbatches,
                    recompute=recompute,
                    sequence_parallel=tp > 1,
                )
                check_layout(wanted, layout)
                held = rows[f"ZeRO-{zero}, recompute {recompute}"] = peak_memory(wanted, layout)
                rest = held.total - held.states.total - held.activations
                parts = [part / GIB for part in (held.states.total, held.activations, rest, held.total)]
                typer.echo(f"{zero:4} {recompute:10}{parts[0]:9.2f}{parts[1]:13.2f}{parts[2]:8.2f}{parts[3]:9.2f}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if figure is not None:
        typer.echo(draw(rows, figure, f"{wanted.name}: memory of the fullest of {tp * pp * dp} ranks"))
    if not measure:
        return
    count, weights, gradients, state = measured_states(64)
    typer.echo(
        f"\n{count} parameters in fp32 with Adam: predicted 4P + 4P + 8P = {16 * count} bytes plus a step counter"
    )
    typer.echo(f"measured {weights} + {gradients} + {state} = {weights + gradients + state} bytes")
    typer.echo(f"in mixed precision 2P + 2P + 12P = {zero_state_bytes(count, 1, 0).total:.0f} bytes: the same sum")


if __name__ == "__main__":
    typer.run(main)
