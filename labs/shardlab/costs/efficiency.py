"""What fraction of a data sheet's number real kernels and links reach: the only fitted constants of the time model.

`python -m shardlab.costs.validate --fit` prints the values below, fitted on all published runs in data/ together; the
errors that it reports come from constants fitted without the family that is being predicted. Constants that are absent
from FITTED stayed at their guess: these runs cannot tell them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Efficiency:
    """Shares of a peak, each with the hardware it stands for; the defaults are guesses, from which a fit starts.

    matmul_*: of the bf16 peak, large matrix products, by generation. fp8: of the further factor 2 that fp8 promises.
    attention_*: of the bf16 peak, one fused attention kernel. memory: of the memory bandwidth, elementwise kernels.
    network: of the network's line rate. hop_seconds: latency of one step of a ring between servers. hidden: of the
    communication that a schedule may overlap. launch_seconds: of the host, for one layer's forward kernels; a layer is
    never faster than its launches.
    """

    matmul_ampere: float = 0.7
    matmul_hopper: float = 0.7
    matmul_blackwell: float = 0.7
    fp8: float = 0.6
    attention_ampere: float = 0.4
    attention_hopper: float = 0.4
    attention_blackwell: float = 0.4
    memory: float = 0.6
    network: float = 0.4
    hop_seconds: float = 10e-6
    hidden: float = 0.5
    launch_seconds: float = 0.2e-3

    def matmul(self, generation: str) -> float:
        """Share of the bf16 peak in large matrix products; generations without a published run take Ampere's."""
        return getattr(self, f"matmul_{generation}", self.matmul_ampere)

    def attention(self, generation: str) -> float:
        """Share of the bf16 peak in fused attention; generations without a published run take Ampere's."""
        return getattr(self, f"attention_{generation}", self.attention_ampere)


FITTED = Efficiency(
    matmul_ampere=0.72,
    matmul_hopper=0.75,
    matmul_blackwell=0.42,
    attention_ampere=0.34,
    attention_hopper=0.21,
    memory=0.63,
    network=0.92,
)

# Not fitted: the mean of bus bandwidth / 300 GB/s in data/allreduce_alpha_beta.csv for 4 to 8 A100, and the slope of
# its latency, 5.4 us for each further rank of a ring, which sends 2 more messages.
NVLINK = 0.75
NVLINK_ALPHA = 2.7e-6
