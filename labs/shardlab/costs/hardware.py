"""Accelerators by name: dense peaks, memory and links, in FLOP/s, bytes and bytes a second in one direction.

Sources: the makers' data sheets (A100 2021, H100 2023, H200 2024, B200/GB200 2025). Peaks are dense: data sheets print
twice that "with sparsity". NVLink is printed for both directions together; here one direction, half of it.
The network is what a server of eight usually has for each GPU: 200 Gb/s with A100, 400 Gb/s since H100. H800: arXiv
2412.19437 section 3.1 and the H100's peaks, with NVLink cut to 400 GB/s. V100: data sheet 2020, 100 Gb/s for each.
"""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True)
class Accelerator:
    """One accelerator in its server. fp8_flops is 0 where there is none."""

    name: str
    generation: str
    bf16_flops: float
    fp8_flops: float
    memory_bytes: float
    memory_bandwidth: float
    nvlink: float
    network: float
    per_node: int = 8


def _gpu(name: str, generation: str, tflops: float, fp8: float, gib: float, tb_s: float, nvlink: float, gbit: float):
    return Accelerator(
        name, generation, tflops * 1e12, fp8 * 1e12, gib * GIB, tb_s * 1e12, nvlink * 1e9, gbit * 1e9 / 8
    )


ACCELERATORS = {
    one.name: one
    for one in (
        _gpu("v100", "volta", 125, 0, 32, 0.9, 150, 100),
        _gpu("a100-40", "ampere", 312, 0, 40, 1.555, 300, 200),
        _gpu("a100", "ampere", 312, 0, 80, 2.039, 300, 200),
        _gpu("h100", "hopper", 989.5, 1979, 80, 3.35, 450, 400),
        _gpu("h100-96", "hopper", 989.5, 1979, 96, 2.4, 450, 400),
        _gpu("h800", "hopper", 989.5, 1979, 80, 3.35, 200, 400),
        _gpu("h200", "hopper", 989.5, 1979, 141e9 / GIB, 4.8, 450, 400),
        _gpu("b200", "blackwell", 2250, 4500, 180e9 / GIB, 8.0, 900, 400),
        _gpu("gb200", "blackwell", 2500, 5000, 186e9 / GIB, 8.0, 900, 400),
        # two cores of a laptop that talk through memory: no link is faster than another
        Accelerator("laptop", "cpu", 0.2e12, 0, 16 * GIB, 50e9, 5e9, 5e9, per_node=8),
    )
}


def find_accelerator(name: str) -> Accelerator:
    """The accelerator of that name; raises ValueError that lists them."""
    if name.lower() not in ACCELERATORS:
        raise ValueError(f"there is no GPU {name!r} here: use one of {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name.lower()]


def slowest_link(accelerator: Accelerator, ranks_spanned: int) -> float:
    """Bytes a second of the slowest link in a group whose members lie within this many neighbouring ranks."""
    return accelerator.nvlink if ranks_spanned <= accelerator.per_node else accelerator.network
