"""Everything besides model and layout that determines the time of a step."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

from shardlab.costs.axis_traffic import BF16
from shardlab.costs.clock.efficiency import FITTED, Efficiency, links_of
from shardlab.costs.clock.software import CURRENT, Software
from shardlab.costs.hardware import Accelerator
from shardlab.costs.links import Links


@dataclass(frozen=True)
class Setup:
    """GPUs, the shares of their peaks that kernels and links reach, number formats and the training program.

    imbalance: rows of the rank with the fullest experts over the mean, if experts are spread over several ranks.
    fp8: the layers' matmuls are in fp8, the output layer's in 16 bits. gradient_bytes: per reduced number.
    """

    gpu: Accelerator
    efficiency: Efficiency = FITTED
    fp8: bool = False
    gradient_bytes: float = BF16
    software: Software = CURRENT
    imbalance: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.imbalance < inf:
            raise ValueError(f"an imbalance of {self.imbalance} between experts: use 1.0 for even loads, or more")

    @cached_property
    def links(self) -> Links:
        return links_of(self.gpu, self.efficiency)
