"""What a model in a layout runs on: what the time of a step depends on besides them."""

from dataclasses import dataclass

from shardlab.costs.axis_traffic import BF16
from shardlab.costs.clock.efficiency import FITTED, Efficiency
from shardlab.costs.clock.software import CURRENT, Software
from shardlab.costs.hardware import Accelerator


@dataclass(frozen=True)
class Setup:
    """GPUs and the shares of their peaks that kernels and links reach, number formats, and the training program.

    fp8: the layers' products are in fp8, the output layer's in 16 bits. gradient_bytes: of each number that is reduced.
    """

    gpu: Accelerator
    efficiency: Efficiency = FITTED
    fp8: bool = False
    gradient_bytes: float = BF16
    software: Software = CURRENT
