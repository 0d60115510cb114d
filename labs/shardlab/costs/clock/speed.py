"""What an accelerator reaches with a training program: its peaks times their shares, and bytes that come on top."""

from typing import NamedTuple

from shardlab.costs.clock.efficiency import EAGER, LAUNCH_SECONDS, Efficiency
from shardlab.costs.clock.software import CURRENT, Software
from shardlab.costs.hardware import Accelerator

WAVES = ("volta", "ampere")
# To make an fp8 operand of a 16-bit one: read it, write it as it is and transposed, which the backward needs (NVIDIA,
# Transformer Engine user guide). Weights are cast once per step.
CAST_BYTES = 4
# What a microbatch adds to a step for each weight whose gradient a product adds to a sum in fp32: it reads and writes 8
# bytes, half of which hide behind its FLOPs. On a B200 such products, 4,096 deep, take 8% longer than those that write
# 2 bytes (MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json).
SUMMED_BYTES = 4


class Speed(NamedTuple):
    """What an accelerator reaches: FLOP/s in products and in attention, exponentials and bytes per second, launches.

    cast: bytes to make an operand's number fp8; summed: bytes that a weight's gradient takes a microbatch.
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
    """Peaks times their efficiency. Raises ValueError when fp8 is asked of an accelerator that has none."""
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
