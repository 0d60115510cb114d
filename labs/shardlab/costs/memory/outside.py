"""GPU memory beyond torch's allocated tensors: fragmentation, NCCL's buffers and the CUDA context."""

from typing import Literal

from shardlab.costs.layout import Layout
from shardlab.costs.models.model import Transformer

Counted = Literal["allocated", "reserved", "nvidia-smi"]
MIB = 2**20
CONTEXT = 1573 * MIB  # an A100 after its first tensor, nvidia-smi: bigscience, train/tr11-176B-ml/chronicles-prequel.md
# a communicator of 2 and of more ranks after an all-reduce, four A100s with NVLink: NVIDIA/nccl, issue 964
PAIR, RING = 544 * MIB, 688 * MIB
FRAGMENTS = 0.10  # of allocated bytes: freed blocks that fit no later tensor; fitted by `memory_validate`


def nccl_bytes(model: Transformer, layout: Layout) -> float:
    """Buffers of a rank's communicators, one per group: each axis, the model (t*p, for the norm) and all ranks.

    A tied embedding adds the pair of first and last stage.
    """
    groups = [layout.tp, layout.cp, layout.pp, layout.dp, layout.ep if model.experts else 1]
    if layout.tp > 1 and layout.pp > 1:
        groups.append(layout.tp * layout.pp)
    if sum(size > 1 for size in groups) > 1:
        groups.append(layout.world)
    if model.tied and layout.pp > 1:
        groups.append(2)
    return sum(PAIR if size == 2 else RING for size in groups if size > 1)


def outside_bytes(
    model: Transformer, layout: Layout, allocated: float, counted: Counted = "nvidia-smi", fragments: float = FRAGMENTS
) -> float:
    """Bytes counted besides allocated ones: fragments if "reserved", also NCCL and context if "nvidia-smi"."""
    if counted == "allocated":
        return 0.0
    held = fragments * allocated
    return held if counted == "reserved" else held + nccl_bytes(model, layout) + CONTEXT
