"""What the software of a run does that no layout says: stated by its documentation or code, never fitted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Software:
    """Facts about a training program; the defaults are those of current Megatron with Transformer Engine.

    newest_attention: fused attention written for its GPU generation (cuDNN 9, FlashAttention-3), not FlashAttention-2.
    fused: norms, activations and residuals are one kernel each, by hand or by a compiler; else one an operation.
    fused_loss: the loss reads logits in one kernel; else in fp32, operation by operation.
    half_products: selective recomputation repeats every other matrix product and keeps attention, as torchtitan's; else
    it repeats attention and keeps the rest (arXiv 2205.05198).
    drops_tokens: experts take a fixed number of rows, so that the host need not wait to learn how many came.
    expert_overlap: all-to-alls of one microbatch run behind the layers of another.
    balanced_stages: the output layer counts when layers are dealt to stages, as nanotron's block costs do.
    gradients_apart: a kernel of its own adds the gradient of each weight to the sum over microbatches.
    reduces_whole: gradients are all-reduced though optimizer state is sharded, parameters gathered afterwards, as by
    DeepSpeed's BF16 optimizer (runtime/pipe/engine.py, _bf16_reduce_grads) and by nanotron (trainer.py, "too memory
    hungry, instead we run all_reduce").
    launches_block: the host waits for each kernel, with CUDA_LAUNCH_BLOCKING=1, so that no launch hides behind another.
    one_card: a collective over servers uses one network card of each, as ZeRO-3 did before it gathered flat buffers.
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
