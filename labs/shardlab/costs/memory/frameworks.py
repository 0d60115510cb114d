"""What frameworks hold beside model states and activations, each by its own source code.

P parameters on a rank, N ranks that share them. Peaks are those of a step's forward and backward.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shardlab.costs.layout import Layout
from shardlab.costs.memory.states import WEIGHT_BYTES
from shardlab.costs.models.model import Transformer, dense_layer_parameters, embedding_parameters, moe_layer_parameters

DEEPSPEED_BUCKET = 500_000_000  # elements: default of reduce_bucket_size, deepspeed/runtime/zero/config.py


@dataclass(frozen=True)
class BufferInputs:
    """What a framework's buffers depend on: P of a stage, bytes of a summed gradient, of a microbatch's activations.

    hidden: bytes of one activation of a microbatch, whole: 2bsh/c.
    """

    parameters: float
    gradient_bytes: float
    microbatch: float
    hidden: float = 0.0


@dataclass(frozen=True)
class Framework:
    """A framework's habits; bytes unless said otherwise.

    gate_bytes: of each of f in a gated MLP; 6 where gate and product are one kernel, 8 where they are two.
    logit_bytes: of one logit at the peak of the loss; split_logit_bytes: where the vocabulary is split over ranks.
    keeps_outputs: a stage keeps what it sent until the gradient comes back.
    keeps_gathered: what sequence parallelism gathers for a product is kept whole for the backward, not gathered again.
    saves_products: selective recomputation keeps every second matrix product, instead of all but the scores.
    input_bytes: of a number in the inputs that linear layers keep.
    masks_dropout: a byte is kept for each number that a dropout has passed.
    keeps_combined: an expert's outputs are kept, to weigh them; else its activation is weighed (megatron-core 0.16.1,
    transformer/moe/experts.py).
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
    """Megatron's gradient buffer is the gradients themselves: backwards add to it."""
    return 0.0


def deepspeed_buffers(held: BufferInputs, layout: Layout) -> float:
    """fp16: an fp32 copy of the gradients of the optimizer's shard, 4P/N, and a bucket to reduce them through.

    bf16 with fp32 sums: the bf16 gradients stay beside them, 2P.
    """
    if held.gradient_bytes == 4:
        return WEIGHT_BYTES * held.parameters
    sharers = layout.state_sharers if layout.zero else 1
    bucket = WEIGHT_BYTES * DEEPSPEED_BUCKET if layout.zero and layout.dp > 1 else 0
    return 4 * held.parameters / sharers + bucket


def nanotron_buffers(held: BufferInputs, layout: Layout) -> float:
    """torch's DDP keeps its buckets, 2P, for good; bf16 gradients of one backward, 2P, come as its activations go.

    Sequence parallelism gathers inputs, and gradients of outputs, in two buffers that stay.
    """
    buckets = WEIGHT_BYTES * held.parameters if layout.dp > 1 else 0.0
    gathered = 2 * held.hidden if layout.sequence_parallel else 0.0
    return buckets + gathered + max(0.0, WEIGHT_BYTES * held.parameters - held.microbatch)


def two_layers(model: Transformer, layout: Layout, parameters: float) -> float:
    """ZeRO-3 holds two layers whole, the one at work and the next: parameters and a layer's gradients."""
    return 3 * model.number_bytes * _layer(model, layout) if layout.zero == 3 else 0.0


def fsdp_gathered(model: Transformer, layout: Layout, parameters: float) -> float:
    """FSDP2 in torchtitan: the root's embeddings stay whole, and two layers.

    Under a pipeline all stay whole between microbatches, 2P, and gradients are summed whole in fp32, 4P.
    """
    if layout.pp > 1:
        return (WEIGHT_BYTES + 4) * parameters
    return WEIGHT_BYTES * (embedding_parameters(model) / layout.tp + 2 * _layer(model, layout))


def _layer(model: Transformer, layout: Layout) -> float:
    layer = moe_layer_parameters(model) / layout.ep if model.moe_layers else dense_layer_parameters(model)
    return layer / layout.tp


MEGATRON = Framework("Megatron-LM, core/distributed/param_and_grad_buffer.py", no_buffers, two_layers)
# fp8 as DeepSeek-V3 keeps it: inputs of linear layers and of SwiGLU in 1 byte, its output in 2 where it is kept
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
# the loss: bf16 logits leave a hole; fp32 log-softmax, its gradient and the logits' (a fourth where it is split)
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
# since 2025 the loss is compiled: bf16 logits and their gradient
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
# no dropout; what goes beyond a layer's activations is in `memory_here`
COURSE = Framework("shardlab.hybrid", no_buffers, two_layers, gate_bytes=8, masks_dropout=False)
