"""Bytes per parameter on a rank, by the dtypes in which a framework keeps weights, gradients and moments."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Bytes of one parameter. weights, gradients: used in the passes. optimizer: needed only by the optimizer.

    source: where the dtypes are documented.
    """

    weights: int
    gradients: int
    optimizer: int
    source: str

    @property
    def total(self) -> int:
        """Bytes per parameter without sharding."""
        return self.weights + self.gradients + self.optimizer


_MEGATRON = "Megatron Core, user guide, Distributed Optimizer"
RECIPES = {
    "mixed": Recipe(2, 2, 12, "ZeRO, 1910.02054, section 3.1: fp32 master, momentum and variance"),
    "bf16-fp32-gradients": Recipe(2, 4, 12, f"{_MEGATRON}, bf16 weights and fp32 gradients"),
    "fp16-megatron": Recipe(2, 2, 16, f"{_MEGATRON}, fp16 weights and gradients: the optimizer needs fp32 ones, too"),
    "fp32": Recipe(4, 4, 8, f"{_MEGATRON}, fp32 throughout: the weights are their own master"),
    "deepseek-v3": Recipe(2, 4, 8, "DeepSeek-V3, 2412.19437, section 3.3.2: fp32 master and gradients, bf16 moments"),
}


def bytes_per_parameter(recipe: str, num_ranks: int = 1, stage: int = 1) -> float:
    """Bytes per parameter on one of N ranks. Of 16, 18 or 20 bytes, stage 1 shards the optimizer's part, stage 2 also
    the gradients, stage 3 everything.

    Stage 1 with fp32 gradients is Megatron's distributed optimizer, 6 + 12/d. Not included are buffers (a bucket of
    gradients, a gathered unit: `memory.frameworks`) and memory outside tensors (`memory.outside`).
    Raises ValueError for another recipe, stage or number of ranks.
    """
    if recipe not in RECIPES or stage not in range(4) or num_ranks < 1:
        raise ValueError(
            f"recipe {recipe!r}, stage {stage}, {num_ranks} ranks: "
            f"use {', '.join(RECIPES)}, stage 0 to 3 and 1 or more ranks"
        )
    kept = RECIPES[recipe]
    parts = ((kept.weights, 3), (kept.gradients, 2), (kept.optimizer, 1))
    return sum(num_bytes / num_ranks if stage >= cut_from else num_bytes for num_bytes, cut_from in parts)
