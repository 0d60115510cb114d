"""Memory in addition to model states and activations: what frameworks hold, and what is not in torch's tensors.

Frameworks, according to their source code: P parameters on a rank, N ranks that share them; peaks are those of a step's
forward and backward. Outside of torch's tensors: fragmentation, NCCL's buffers and the CUDA context.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from shardlab.costs.layout import Layout
from shardlab.costs.memory.states import WEIGHT_BYTES
from shardlab.costs.models.model import Transformer, dense_layer_parameters, embedding_parameters, moe_layer_parameters

DEEPSPEED_BUCKET = 500_000_000  # elements: default of reduce_bucket_size, deepspeed/runtime/zero/config.py


@dataclass(frozen=True)
class BufferInputs:
    """Inputs of a framework's buffer formula: P of a stage, bytes per summed gradient and per microbatch of
    activations.

    hidden: bytes of one whole activation of a microbatch: 2bsh/c.
    """

    parameters: float
    gradient_bytes: float
    microbatch: float
    hidden: float = 0.0


@dataclass(frozen=True)
class Framework:
    """How a framework uses memory; values are in bytes unless noted.

    gate_bytes: per element of f in a gated MLP; 6 if gate and product are one kernel, 8 if they are two.
    logit_bytes: per logit at the peak of the loss; split_logit_bytes: if the vocabulary is split over ranks.
    keeps_outputs: a stage keeps what it sent until the gradient arrives.
    keeps_gathered: tensors that sequence parallelism gathers for a matmul are kept whole, not gathered again in the
    backward.
    saves_products: selective recomputation keeps every second matmul instead of everything except the scores.
    input_bytes: per number of the inputs that linear layers keep.
    masks_dropout: dropout keeps one byte per number.
    keeps_combined: an expert's outputs are kept to weight them; otherwise its activation is weighted (megatron-core
    0.16.1, transformer/moe/experts.py).
    """

    source: str
    buffers: Callable[[BufferInputs, Layout], float]
    gathered: Callable[[Transformer, Layout, float], float]
    gate_bytes: int = 6
    logit_bytes: float = 8  # fp32, and its gradient
    split_logit_bytes: float = 8
    keeps_outputs: bool = False
    keeps_gathered: bool = False
    saves_products: bool = False
    input_bytes: int = 2
    keeps_combined: bool = True
    masks_dropout: bool = True


def no_buffers(held: BufferInputs, layout: Layout) -> float:
    """Megatron keeps its gradients in the buffer itself, so the buffer needs no other memory."""
    return 0.0


def deepspeed_buffers(held: BufferInputs, layout: Layout) -> float:
    """fp16: an fp32 copy of the gradients in the optimizer's shard, 4P/N, and a bucket for reducing them.

    bf16 with fp32 sums: the bf16 gradients exist as well, 2P.
    """
    if held.gradient_bytes == 4:
        return WEIGHT_BYTES * held.parameters
    sharers = layout.state_sharers if layout.zero else 1
    bucket = WEIGHT_BYTES * DEEPSPEED_BUCKET if layout.zero and layout.dp > 1 else 0
    return 4 * held.parameters / sharers + bucket


def nanotron_buffers(held: BufferInputs, layout: Layout) -> float:
    """torch's DDP keeps its buckets, 2P, permanently; the bf16 gradients of one backward, 2P, replace its activations.

    Sequence parallelism gathers inputs, and output gradients, in two permanent buffers.
    """
    buckets = WEIGHT_BYTES * held.parameters if layout.dp > 1 else 0.0
    gathered = 2 * held.hidden if layout.sequence_parallel else 0.0
    return buckets + gathered + max(0.0, WEIGHT_BYTES * held.parameters - held.microbatch)


def two_layers(model: Transformer, layout: Layout, parameters: float) -> float:
    """ZeRO-3 holds two whole layers, the current one and the next: parameters, and one layer's gradients."""
    return 3 * model.number_bytes * _layer(model, layout) if layout.zero == 3 else 0.0


def fsdp_gathered(model: Transformer, layout: Layout, parameters: float) -> float:
    """FSDP2 in torchtitan: the root's embeddings stay whole, plus two layers.

    With a pipeline everything stays whole between microbatches, 2P, and gradients are summed whole in fp32, 4P.
    """
    if layout.pp > 1:
        return (WEIGHT_BYTES + 4) * parameters
    return WEIGHT_BYTES * (embedding_parameters(model) / layout.tp + 2 * _layer(model, layout))


def _layer(model: Transformer, layout: Layout) -> float:
    layer = moe_layer_parameters(model) / layout.ep if model.moe_layers else dense_layer_parameters(model)
    return layer / layout.tp


MEGATRON = Framework("Megatron-LM, core/distributed/param_and_grad_buffer.py", no_buffers, two_layers)
# fp8 as in DeepSeek-V3: inputs of linear layers and of SwiGLU take 1 byte, its output 2 if it is kept
DEEPSEEK_FP8 = Framework(
    "DeepSeek-V3, arXiv 2412.19437, section 3.3.3",
    no_buffers,
    two_layers,
    gate_bytes=4,
    input_bytes=1,
    keeps_combined=False,
)
DEEPSPEED = Framework(
    "DeepSpeed, runtime/zero/stage_1_and_2.py, runtime/bf16_optimizer.py, runtime/pipe/engine.py",
    deepspeed_buffers,
    two_layers,
    keeps_outputs=True,
)
NANOTRON = Framework(
    "nanotron, optim/gradient_accumulator.py, parallel/tensor_parallel/functional.py, models/llama.py",
    nanotron_buffers,
    two_layers,
    gate_bytes=8,
)
# the loss: bf16 logits leave a hole; fp32 log-softmax, its gradient and that of the logits (a fourth if it is split)
TORCHTITAN = Framework(
    "torchtitan, parallelisms/parallelize_llama.py; torch, distributed/tensor/parallel/loss.py",
    no_buffers,
    fsdp_gathered,
    logit_bytes=2 + 3 * 4,
    split_logit_bytes=2 + 4 * 4,
    keeps_outputs=True,
    keeps_gathered=True,
    saves_products=True,
)
# since 2025 the loss is compiled: only bf16 logits and their gradient
TORCHTITAN_FUSED = Framework(
    "torchtitan, components/loss.py",
    no_buffers,
    fsdp_gathered,
    logit_bytes=4,
    split_logit_bytes=4,
    keeps_outputs=True,
    keeps_gathered=True,
    saves_products=True,
)
# no dropout; anything beyond a layer's activations is in `memory_here`
COURSE = Framework("shardlab.hybrid", no_buffers, two_layers, gate_bytes=8, masks_dropout=False)


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
    """Bytes counted in addition to allocated ones: fragments if "reserved", also NCCL and context if "nvidia-smi"."""
    if counted == "allocated":
        return 0.0
    held = fragments * allocated
    return held if counted == "reserved" else held + nccl_bytes(model, layout) + CONTEXT
