"""The speed an accelerator reaches with a training program: its peaks times their shares, and additional bytes."""

from typing import NamedTuple

from shardlab.costs.clock.efficiency import EAGER, LAUNCH_SECONDS, Efficiency
from shardlab.costs.clock.software import CURRENT, Software
from shardlab.costs.hardware import Accelerator

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
