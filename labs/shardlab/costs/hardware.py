"""Accelerators by name: dense peaks, memory and links in FLOP/s, bytes, and bytes per second in one direction.

Sources: the vendors' data sheets (A100 2021, H100 2023, H200 2024, B200/GB200 2025). Peaks are dense; data sheets list
twice that "with sparsity". They list NVLink for both directions together; here it is one direction, half of that.
The network is what a server of eight usually has per GPU: 200 Gb/s with A100, 400 Gb/s since H100. H800: arXiv
2412.19437 section 3.1 and the H100's peaks, with NVLink reduced to 400 GB/s. V100: data sheet 2020, 100 Gb/s per GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlab.costs.clock.calibration import Calibration

GIB = 2**30
MOST_GBIT = 1_000_000  # a larger number is probably in bytes or bits per second


@dataclass(frozen=True)
class Accelerator:
    """One accelerator in its server. fp8_flops is 0 if there is no fp8.

    per_node: GPUs connected by NVLink. sms: multiprocessors, over which the tiles of a matmul are spread; 0 to ignore
    tiles. clock: of a multiprocessor, in Hz. measured: calibration of this CPU, which `per_node` ranks share; step
    times then come from measurements (`clock.here`), in float32.
    """

    name: str
    generation: str
    bf16_flops: float
    fp8_flops: float
    memory_bytes: float
    memory_bandwidth: float
    nvlink: float
    network: float
    per_node: int = 8
    sms: int = 0
    clock: float = 0.0
    measured: Calibration | None = None

    @property
    def exponentials(self) -> float:
        """Exponentials per second: 16 per clock on each multiprocessor, on all since Volta (CUDA C++ guide)."""
        return 16 * self.sms * self.clock


# generation: multiprocessors, boost clock in Hz; the clock only matters for the exponentials of attention
_SMS = {"volta": (80, 1.53e9), "ampere": (108, 1.41e9), "hopper": (132, 1.755e9), "blackwell": (148, 1.85e9)}


def _gpu(
    name: str,
    generation: str,
    tflops: float,
    fp8: float,
    gib: float,
    tb_s: float,
    nvlink: float,
    gbit: float,
    per_node: int = 8,
):
    units = (tflops * 1e12, fp8 * 1e12, gib * GIB, tb_s * 1e12, nvlink * 1e9, gbit * 1e9 / 8)
    return Accelerator(name, generation, *units, per_node, *_SMS[generation])


# An H100 limited to 500 W instead of 700: a multiprocessor's power grows with the cube of its clock.
_AT_500_W = (500 / 700) ** (1 / 3)

ACCELERATORS = {
    one.name: one
    for one in (
        _gpu("v100", "volta", 125, 0, 32, 0.9, 150, 100),
        _gpu("a100-40", "ampere", 312, 0, 40, 1.555, 300, 200),
        _gpu("a100", "ampere", 312, 0, 80, 2.039, 300, 200),
        _gpu("h100", "hopper", 989.5, 1979, 80, 3.35, 450, 400),
        _gpu("h100-96", "hopper", 989.5 * _AT_500_W, 1979 * _AT_500_W, 96, 2.4, 450, 400),
        _gpu("h800", "hopper", 989.5, 1979, 80, 3.35, 200, 400),
        _gpu("h200", "hopper", 989.5, 1979, 141e9 / GIB, 4.8, 450, 400),
        _gpu("b200", "blackwell", 2250, 4500, 180e9 / GIB, 8.0, 900, 400),
        _gpu("b300", "blackwell", 2250, 4500, 270e9 / GIB, 8.0, 900, 800),
        _gpu("gb200", "blackwell", 2500, 5000, 186e9 / GIB, 8.0, 900, 400, 72),
        _gpu("gb300", "blackwell", 2500, 5000, 279e9 / GIB, 8.0, 900, 800, 72),
        # two laptop cores that communicate through memory: all links are equally fast
        Accelerator("laptop", "cpu", 0.2e12, 0, 16 * GIB, 50e9, 5e9, 5e9, per_node=8),
    )
}


def with_network(accelerator: Accelerator, gbit: float) -> Accelerator:
    """The accelerator with `gbit` Gb/s of network per GPU in one direction. Raises ValueError unless above 0."""
    if not 0 < gbit <= MOST_GBIT:
        raise ValueError(f"a network of {gbit} Gb/s per GPU: use a number above 0, such as 400, up to {MOST_GBIT:,}")
    return replace(accelerator, network=gbit * 1e9 / 8)
