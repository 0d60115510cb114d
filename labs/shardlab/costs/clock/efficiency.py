"""The fraction of data-sheet numbers that real kernels and links reach: the only fitted constants of the time model.

`python -m shardlab.costs.validation --fit` prints the values below, fitted on all published runs in data/ together. The
errors that it reports use constants fitted without the family that is being predicted.
"""

from dataclasses import dataclass

from shardlab.costs.hardware import Accelerator
from shardlab.costs.links import Links


@dataclass(frozen=True)
class Efficiency:
    """Shares of a peak, each with the hardware it applies to. The defaults are guesses, which act as a prior for the
    fit.

    matmul_*: deep matmuls, of the bf16 peak, by generation. Blackwell's guess is the mean that SimuMax's authors
    measured on a B200 at 2.25 PFLOP/s. fp8: share of the additional factor 2 that fp8 promises. grouped: many small
    matmuls in one call, for experts, relative to one matmul. attention_*: matmuls of fused attention, of the bf16 peak:
    ampere; newest, written for Hopper or Blackwell; flash2, FlashAttention-2 on those, which uses none of their new
    instructions.
    memory:
    elementwise kernels, of the memory bandwidth. network: of the network's line rate. hidden: of the communication that
    a schedule may overlap.
    """

    matmul_ampere: float = 0.8
    matmul_hopper: float = 0.7
    matmul_blackwell: float = 0.49
    fp8: float = 0.7
    grouped: float = 0.8
    attention_ampere: float = 0.5
    attention_newest: float = 0.65
    attention_flash2: float = 0.4
    memory: float = 0.75
    network: float = 0.8
    hidden: float = 0.8

    def matmul(self, generation: str) -> float:
        """Share of the bf16 peak in large matmuls; generations without a published run use Ampere's."""
        return getattr(self, f"matmul_{generation}", self.matmul_ampere)

    def attention(self, generation: str, *, newest: bool = True) -> float:
        """Share of the bf16 peak in fused attention; generations without a published run use Ampere's."""
        if generation in ("hopper", "blackwell"):
            return self.attention_newest if newest else self.attention_flash2
        return self.attention_ampere


FITTED = Efficiency(
    matmul_ampere=0.75,
    matmul_hopper=0.62,
    matmul_blackwell=0.44,
    fp8=0.75,
    grouped=0.80,
    attention_ampere=0.45,
    attention_newest=0.65,
    attention_flash2=0.34,
    memory=0.72,
    network=0.75,
    hidden=0.76,
)


@dataclass(frozen=True)
class NVLink:
    """Collectives inside an NVLink domain, measured instead of fitted: share of the line rate, seconds per message of a
    ring and seconds per call.
    """

    share: float
    alpha: float
    call: float = 0.0


# The mean of bus bandwidth / 300 GB/s in data/allreduce_alpha_beta.csv for 4 to 8 A100s, and the slope of the latency:
# 5.4 us for each additional rank of a ring, which adds 2 messages.
NVLINK = NVLink(0.75, 2.7e-6)
# Means of all-gather and reduce-scatter on 8 B200 (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
_BLACKWELL = NVLink(0.67, 8.6e-6, 24e-6)


def nvlink_of(generation: str) -> NVLink:
    """Measured on Blackwell; all other generations use Ampere's."""
    return _BLACKWELL if generation == "blackwell" else NVLINK


# Not fitted: bytes of an elementwise operation run as separate kernels, relative to one fused kernel.
EAGER = 2.0
# Not fitted: latency of one step of a ring between servers.
HOP_SECONDS = 10e-6
# Not fitted: the host's time to launch the kernels of one layer's pass; a pass is never faster. The fastest of 861
# small runs on one server of A100s (VIA-Research/vTrain, data/ground_truth_single.csv) take 3.0 to 3.8 ms per layer
# with recomputation, which is three passes, at any size.
LAUNCH_SECONDS = 1e-3


def links_of(gpu: Accelerator, efficiency: Efficiency = FITTED) -> Links:
    """The bandwidths and latencies that links reach in published and measured runs."""
    inside = nvlink_of(gpu.generation)
    return Links(
        gpu.nvlink * inside.share,
        gpu.network * efficiency.network,
        gpu.per_node,
        inside.alpha,
        HOP_SECONDS,
        inside.call,
    )
