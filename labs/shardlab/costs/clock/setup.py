"""Everything except model and layout that determines the time of a step: accelerator, software, and shares of peaks.

The shares of data-sheet numbers that real kernels and links reach are the only fitted constants of the time model.
`python -m shardlab.costs.validation --fit` prints the values below, fitted on all published runs in data/ together. The
errors that it reports use constants fitted without the family that is being predicted. Facts about a run's software are
taken from its documentation or code, never fitted.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from shardlab.costs.axis_traffic import BF16
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


@dataclass(frozen=True)
class Software:
    """Facts about a training program; the defaults are those of current Megatron with Transformer Engine.

    newest_attention: fused attention written for its GPU generation (cuDNN 9, FlashAttention-3), not FlashAttention-2.
    fused: norms, activations and residuals are one kernel each, by hand or by a compiler; otherwise one per operation.
    fused_loss: the loss reads logits in one kernel; otherwise in fp32, operation by operation.
    half_products: selective recomputation repeats every other matmul and keeps attention, as in torchtitan; otherwise
    it repeats attention and keeps the rest (arXiv 2205.05198).
    drops_tokens: experts take a fixed number of rows, so that the host need not wait to learn how many arrived.
    expert_overlap: all-to-alls of one microbatch overlap with the layers of another.
    balanced_stages: the output layer counts when layers are assigned to stages, as with nanotron's block costs.
    gradients_apart: a separate kernel adds each weight's gradient to the sum over microbatches.
    reduces_whole: gradients are all-reduced although optimizer states are sharded, and parameters gathered afterwards,
    as in DeepSpeed's BF16 optimizer (runtime/pipe/engine.py, _bf16_reduce_grads) and by nanotron (trainer.py, "too
    memory hungry, instead we run all_reduce").
    launches_block: the host waits for each kernel (CUDA_LAUNCH_BLOCKING=1), so that no launch hides behind another.
    one_card: a collective across servers uses one network card of each, as in ZeRO-3 before it gathered flat buffers.
    """

    newest_attention: bool = True
    fused: bool = True
    fused_loss: bool = True
    half_products: bool = False
    drops_tokens: bool = False
    expert_overlap: bool = False
    balanced_stages: bool = False
    gradients_apart: bool = False
    reduces_whole: bool = False
    launches_block: bool = False
    one_card: bool = False


CURRENT = Software()


WAVES = ("volta", "ampere")
# To convert a 16-bit operand to fp8: read it, write it as is and transposed, which the backward needs (NVIDIA,
# Transformer Engine user guide). Weights are cast once per step.
CAST_BYTES = 4
# Cost per microbatch of each weight whose gradient a matmul adds to a sum in fp32: it reads and writes 8 bytes, half of
# which hide behind its FLOPs. On a B200 such matmuls, 4,096 deep, take 8% longer than those that write 2 bytes
# (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
SUMMED_BYTES = 4


class Speed(NamedTuple):
    """Achieved rates: FLOP/s in matmuls and in attention, exponentials and bytes per second, and launches.

    cast: bytes to convert one number of an operand to fp8. summed: bytes per microbatch for a weight's gradient.
    """

    matmul: float
    attention: float
    exponentials: float
    memory: float
    launch: float
    sms: int
    fused_loss: bool
    eager: float
    grouped: float
    waits: bool
    launches_block: bool
    cast: int
    summed: float


def speed_of(
    gpu: Accelerator,
    efficiency: Efficiency,
    *,
    fp8: bool = False,
    software: Software = CURRENT,
    summed: float = SUMMED_BYTES,
) -> Speed:
    """Peaks times their efficiency. Raises ValueError for fp8 on an accelerator that does not have it."""
    if fp8 and not gpu.fp8_flops:
        raise ValueError(f"{gpu.name} has no fp8: use bf16, or an h100, h200 or b200")
    gain = 1 + efficiency.fp8 * (gpu.fp8_flops / gpu.bf16_flops - 1) if fp8 else 1.0
    return Speed(
        matmul=gpu.bf16_flops * efficiency.matmul(gpu.generation) * gain,
        attention=gpu.bf16_flops * efficiency.attention(gpu.generation, newest=software.newest_attention),
        exponentials=gpu.exponentials,
        memory=gpu.memory_bandwidth * efficiency.memory,
        launch=LAUNCH_SECONDS if gpu.sms else 0.0,
        sms=gpu.sms if gpu.generation in WAVES else 0,
        fused_loss=software.fused_loss,
        eager=1.0 if software.fused else EAGER,
        grouped=efficiency.grouped,
        waits=not software.drops_tokens,
        launches_block=software.launches_block,
        cast=CAST_BYTES if fp8 else 0,
        summed=summed,
    )


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
