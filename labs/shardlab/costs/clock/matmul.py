"""FLOPs of a matmul as executed by the hardware: tiles of the result, in waves.

Up to Ampere, multiprocessors process tiles in waves, and a partly filled last wave costs as much as a full one
(NVIDIA, Matrix Multiplication Background User's Guide, measured on A100). On the H100, waves explain nothing.
"""

from functools import cache
from math import ceil
from typing import NamedTuple

BYTES = 2  # bf16 and fp16
# Rows and columns of a tile, and its rate relative to the largest: smaller tiles read more operands per FLOP.
TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.9), (128, 64, 0.7), (64, 128, 0.7), (64, 64, 0.5))


class Product(NamedTuple):
    """`groups` matmuls of rows x depth by depth x columns."""

    rows: float
    columns: float
    depth: float
    groups: float = 1

    @property
    def flops(self) -> float:
        return 2 * self.rows * self.columns * self.depth * self.groups


@cache
def busy_flops(product: Product, sms: int) -> float:
    """FLOPs that would take as long in large matmuls: waves of `sms` tiles, or the exact FLOPs if sms is 0."""
    rows, columns, depth, groups = product
    if not sms:
        return product.flops
    return (
        min(
            2 * ceil(ceil(groups) * ceil(rows / high) * ceil(columns / wide) / sms) * sms * high * wide / rate
            for high, wide, rate in TILES
        )
        * depth
    )
