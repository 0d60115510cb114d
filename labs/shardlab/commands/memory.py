"""The command `shardlab memory`: evaluates formulas, needs no ranks and no torch."""

from __future__ import annotations

import json as json_format
from typing import TYPE_CHECKING, Annotated

import typer

from shardlab.commands.plan import MOST_GPUS, Gpu, Json, Model

if TYPE_CHECKING:
    from shardlab.costs.hardware import Accelerator
    from shardlab.costs.memory.stage import MemoryBytes

FP32 = 4  # bytes per gradient element


def memory(
    model: Model = "llama3-8b",
    gpu: Gpu = "h100",
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline parallel size.")] = 1,
    dp: Annotated[int, typer.Option("--dp", help="Data parallel size.")] = 1,
    cp: Annotated[int, typer.Option("--cp", help="Context parallel size.")] = 1,
    ep: Annotated[int, typer.Option("--ep", help="Expert parallel size.")] = 1,
    zero: Annotated[int, typer.Option("--zero", help="ZeRO stage, 0 to 3.")] = 0,
    microbatch: Annotated[int, typer.Option("--microbatch", help="Sequences per microbatch.")] = 1,
    microbatches: Annotated[int, typer.Option("--microbatches", help="Microbatches per step.")] = 1,
    virtual: Annotated[int, typer.Option("--virtual", help="Chunks of layers per stage (interleaved 1F1B).")] = 1,
    schedule: Annotated[str, typer.Option("--schedule", help="1f1b, gpipe, zero-bubble, zbv or dualpipe.")] = "1f1b",
    recompute: Annotated[str, typer.Option("--recompute", help="none, selective, norms or full.")] = "none",
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, help="Number of GPUs; must equal tp x pp x dp x cp.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the memory of the fullest rank of a layout in GiB: the first stage, or the last one with its logits."""
    from shardlab.costs.hardware import GIB
    from shardlab.costs.layout import Layout, check_layout, check_world
    from shardlab.costs.machines import as_trained, find_accelerator
    from shardlab.costs.memory.stage import peak_memory
    from shardlab.costs.models.zoo import load_model

    try:
        if (ranks := tp * pp * dp * cp) > MOST_GPUS:
            raise ValueError(f"tp x pp x dp x cp = {ranks} ranks: use degrees whose product is at most {MOST_GPUS}")
        accelerator = find_accelerator(gpu, ranks=ranks)
        wanted = as_trained(load_model(model), accelerator)
        layout = Layout(
            tp=tp,
            pp=pp,
            dp=dp,
            cp=cp,
            ep=ep,
            zero=zero,
            microbatch=microbatch,
            num_microbatches=microbatches,
            virtual=virtual,
            schedule=schedule,  # type: ignore[arg-type]
            recompute=recompute,  # type: ignore[arg-type]
            sequence_parallel=tp > 1,
        )
        check_layout(wanted, layout)
        if gpus is not None:
            check_world(layout, gpus)
    except (ValueError, RecursionError) as error:  # RecursionError: a deeply nested JSON file
        raise typer.BadParameter(str(error)) from None
    held = peak_memory(wanted, layout, gradient_bytes=FP32)
    parts = _parts(held)
    if json:
        typer.echo(json_format.dumps({name: round(value) for name, value in parts.items()}))
        return
    for name, value in parts.items():
        if value:
            typer.echo(f"{name:20}{value / GIB:9.2f} GiB")
    typer.echo(_verdict(held.total, accelerator))
    typer.echo(_why(wanted.number_bytes))


def _parts(held: MemoryBytes) -> dict[str, float]:
    """Bytes held, by name; 0 for parts that this layout does not have."""
    return {
        "parameters": held.states.parameters,
        "gradients, fp32": held.states.gradients,
        "optimizer": held.states.optimizer,
        "activations": held.activations,
        "logits and ends": held.output,
        "gathered by ZeRO-3": held.gathered,
        "buffers": held.buffers,
        "total": held.total,
    }


def _why(number_bytes: int) -> str:
    """Explain the bytes per parameter, and why the ZeRO paper counts fewer."""
    from shardlab.costs.memory.states import bytes_per_parameter, zero_state_bytes

    if number_bytes == FP32:
        return f"{bytes_per_parameter(FP32, FP32)}; weights, gradients and activations are fp32 here"
    return (
        f"{bytes_per_parameter(FP32)};\n"
        "gradients are summed over microbatches in fp32, as in DeepSpeed's BF16 optimizer. With 16-bit gradients,\n"
        f"as in the ZeRO paper and in lab 1's memory_calculator.py, the total is {zero_state_bytes(1, 1, 0).total:g}"
    )


def _verdict(total: float, gpu: Accelerator) -> str:
    """Whether it fits, using the rule of `shardlab plan`, which leaves part of the GPU's memory free."""
    from shardlab.costs.hardware import GIB
    from shardlab.costs.planning.planner import USABLE, usable_bytes

    free, spare = gpu.memory_bytes - total, gpu.memory_bytes - usable_bytes(gpu)
    has = f"{gpu.name} has {gpu.memory_bytes / GIB:.0f} GiB"
    if free < 0:
        return f"{has}: does not fit, {-free / GIB:.2f} GiB too much"
    if free < spare:
        return (
            f"{has}: leaves {free / GIB:.2f} GiB, too little: the driver, collectives and fragmentation take up to "
            f"{spare / GIB:.1f} GiB, the {1 - USABLE:.0%} that `shardlab plan` leaves free"
        )
    return f"{has}: leaves {free / GIB:.2f} GiB"
