"""What fraction of a data sheet's number real kernels and links reach: the only fitted constants of the time model.

`python -m shardlab.costs.validation --fit` prints the values below, fitted on all published runs in data/ together; the
errors that it reports come from constants fitted without the family that is being predicted.
"""

from dataclasses import dataclass

from shardlab.costs.hardware import Accelerator
from shardlab.costs.links import Links


@dataclass(frozen=True)
class Efficiency:
    """Shares of a peak, each with the hardware it stands for; the defaults are guesses, to which a fit is drawn.

    matmul_*: of the bf16 peak, deep matrix products, by generation; Blackwell's guess is the mean that SimuMax's
    authors measured on a B200 at 2.25 PFLOP/s. fp8: of the further factor 2 that fp8 promises.
    grouped: of the rate of one product, many small ones in a call, experts'. attention_*: of the bf16 peak, the
    products of fused attention: ampere; newest, written for Hopper or Blackwell; flash2, FlashAttention-2 on those, of
    whose new instructions it uses none. memory: of the memory bandwidth, elementwise kernels. network: of the network's
    line rate. hidden: of the communication that a schedule may overlap.
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
        """Share of the bf16 peak in large matrix products; generations without a published run take Ampere's."""
        return getattr(self, f"matmul_{generation}", self.matmul_ampere)

    def attention(self, generation: str, *, newest: bool = True) -> float:
        """Share of the bf16 peak in fused attention; generations without a published run take Ampere's."""
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
    """Collectives inside NVLink's domain, measured and not fitted: their share of the line rate, seconds per message of
    their rings, and seconds per call.
    """

    share: float
    alpha: float
    call: float = 0.0


# The mean of bus bandwidth / 300 GB/s in data/allreduce_alpha_beta.csv for 4 to 8 A100, and the slope of its latency,
# 5.4 us for each further rank of a ring, which sends 2 more messages.
NVLINK = NVLink(0.75, 2.7e-6)
# Means of all-gather and reduce-scatter on 8 B200 (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
_BLACKWELL = NVLink(0.67, 8.6e-6, 24e-6)


def nvlink_of(generation: str) -> NVLink:
    """What was measured on Blackwell, and for all others on Ampere."""
    return _BLACKWELL if generation == "blackwell" else NVLINK


# Not fitted: bytes of an elementwise operation written out in single ones, beside those of one fused kernel.
EAGER = 2.0
# Not fitted: latency of one step of a ring between servers.
HOP_SECONDS = 10e-6
# Not fitted: the host's, for the kernels of one layer's pass; a pass is never faster. The fastest of 861 small runs on
# one server of A100 (VIA-Research/vTrain, data/ground_truth_single.csv) take 3.0 to 3.8 ms per layer with
# recomputation, three passes, whatever their sizes.
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
