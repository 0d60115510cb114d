"""Facts about a run's software that no layout contains, taken from its documentation or code, never fitted."""

from dataclasses import dataclass


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
