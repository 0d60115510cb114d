"""Look up an accelerator by name: from a vendor's data sheet, or this machine as calibrated."""

from dataclasses import replace
from pathlib import Path

from shardlab.costs.clock.calibrated import FP32
from shardlab.costs.clock.calibration import Calibration, read_calibration
from shardlab.costs.clock.here import slowdown_of
from shardlab.costs.clock.setup import FITTED, NVLINK, Efficiency, links_of
from shardlab.costs.hardware import ACCELERATORS, Accelerator
from shardlab.costs.models.model import Transformer
from shardlab.costs.traffic import Link
from shardlab.meant import instead

__all__ = ["as_accelerator", "as_trained", "find_accelerator", "links_of"]


def find_accelerator(name: str, *, ranks: int | None = None) -> Accelerator:
    """The accelerator with that name; `here` or a file from `shardlab calibrate` is the measured machine.

    ranks: as in `as_accelerator`. Raises ValueError that lists the names or describes what is wrong with the file.
    """
    if name.lower() == "here" or name.endswith(".json"):
        return as_accelerator(read_calibration(None if name.lower() == "here" else Path(name)), ranks=ranks)
    if name.lower() not in ACCELERATORS:
        raise ValueError(f"unknown GPU {name!r}, and no such file: {instead(name, [*ACCELERATORS, 'here'])}")
    return ACCELERATORS[name.lower()]


def as_trained(model: Transformer, accelerator: Accelerator) -> Transformer:
    """The model in the precision the accelerator trains it in: float32 on this CPU."""
    return replace(model, number_bytes=FP32) if accelerator.measured else model


def as_accelerator(
    calibration: Calibration, efficiency: Efficiency = FITTED, *, ranks: int | None = None
) -> Accelerator:
    """The machine as an accelerator of the step-time model: peaks chosen so that the usual efficiencies give what was
    measured.

    ranks: how many there will be [default: one per core or GPU]. On a CPU all of them share this machine, and step
    times come from measurements, in float32. GPUs beyond the measured number are assumed to be in further servers.
    """
    generation, on_cpu = calibration.device, calibration.device == "cpu"
    known = [n for n in (1, *calibration.ranks) if n <= (ranks if ranks and on_cpu else calibration.cores)]
    measured = max(known)
    per_node = ranks if ranks and on_cpu else measured
    together = calibration.of_ranks(measured)
    slowdown = slowdown_of(calibration, per_node) if on_cpu else together.slowdown
    rates = calibration.matmul["float32"]
    if not on_cpu:
        rates = calibration.matmul.get("bfloat16", rates)
    link = together.links.get("all_reduce", Link(0.0, 0.0))
    bandwidth = 1 / link.beta if link.beta else calibration.memory[max(calibration.memory)]
    return Accelerator(
        "here",
        generation,
        bf16_flops=max(rates.values()) / slowdown / efficiency.matmul(generation),
        fp8_flops=0,
        memory_bytes=calibration.memory_bytes / (max(per_node, calibration.cores) if on_cpu else 1),
        memory_bandwidth=calibration.memory[max(calibration.memory)] / slowdown / efficiency.memory,
        nvlink=bandwidth / NVLINK.share,
        network=bandwidth / efficiency.network,
        per_node=per_node,
        measured=calibration if on_cpu else None,
    )
