"""An accelerator by name: one of the makers' data sheets, or the machine at hand as it was measured."""

from pathlib import Path

from shardlab.costs.clock.calibration import Calibration, read_calibration
from shardlab.costs.clock.efficiency import FITTED, NVLINK, Efficiency
from shardlab.costs.hardware import ACCELERATORS, Accelerator
from shardlab.costs.traffic import Link


def find_accelerator(name: str) -> Accelerator:
    """The accelerator of that name; `here`, or a file of `shardlab calibrate`, is the machine that was measured.

    Raises ValueError that lists the names, or says what is wrong with the file.
    """
    if name.lower() == "here" or name.endswith(".json"):
        return as_accelerator(read_calibration(None if name.lower() == "here" else Path(name)))
    if name.lower() not in ACCELERATORS:
        raise ValueError(f"there is no GPU {name!r} here: use one of {', '.join(ACCELERATORS)}, here")
    return ACCELERATORS[name.lower()]


def as_accelerator(calibration: Calibration, efficiency: Efficiency = FITTED) -> Accelerator:
    """The machine as the step-time model knows accelerators: peaks of which its usual shares are what was measured.

    One rank a core or GPU; bf16 if that was measured, else fp32. Ranks share memory and links of one server.
    """
    generation = calibration.device
    per_node = max([n for n in calibration.ranks if n <= calibration.cores], default=1)
    together = calibration.of_ranks(per_node)
    rates = calibration.matmul.get("bfloat16") or calibration.matmul["float32"]
    link = together.links.get("all_reduce", Link(0.0, 0.0))
    bandwidth = 1 / link.beta if link.beta else calibration.memory[max(calibration.memory)]
    return Accelerator(
        "here",
        generation,
        bf16_flops=max(rates.values()) / together.slowdown / efficiency.matmul(generation),
        fp8_flops=0,
        memory_bytes=calibration.memory_bytes / (calibration.cores if calibration.device == "cpu" else 1),
        memory_bandwidth=calibration.memory[max(calibration.memory)] / together.slowdown / efficiency.memory,
        nvlink=bandwidth / NVLINK.share,
        network=bandwidth / efficiency.network,
        per_node=per_node,
    )
