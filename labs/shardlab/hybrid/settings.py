"""How to train a model on a mesh, apart from the mesh itself: one value that all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from shardlab.context_parallel.attention import RING, Method
from shardlab.context_parallel.balance import SequenceLayout, zigzag
from shardlab.pipeline_parallel.builders import one_f_one_b
from shardlab.pipeline_parallel.schedule import Schedule

Recompute = Literal["none", "selective", "full", "stage"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full", "stage")


@dataclass(frozen=True)
class Settings:
    """Settings of a `MeshTrainer` other than model, mesh and optimizer. They are the same on every rank.

    num_microbatches: in each replica's batch. schedule: one of `pipeline_parallel.builders` that places each stage
    once, (ranks, microbatches) -> schedule. The schedule determines how many stages a rank has.
    zero: ZeRO stage 0 to 3, over the ranks of dp and cp together (experts: over edp). replicas: copies of each shard
    (HSDP). The ranks form this many groups of neighbors, and gradients are also summed between the groups.
    compute_dtype: dtype of weights and activations in the passes, such as torch.bfloat16. Masters, optimizer states and
    main gradients keep the model's own dtype, float32. With zero = 2 or 3, each microbatch's gradients are sent in
    compute_dtype, and their sum is kept in the model's dtype.
    sequence_parallel: the tp ranks split the sequence between their matrices. split_vocabulary: the tp ranks split the
    embedding, the head and the loss, which sequence parallelism implies.
    context, layout: how attention reaches the keys of other cp ranks, and which rank has which tokens.
    recompute: the attention core ("selective"), each block ("full"), or a whole stage from its input ("stage").
    max_norm: clips the norm of the whole model's gradient; None never clips. bias_rate: update rate of the router
    biases, 0 for none. seed: of the dropouts. bucket_bytes: None for the default of data parallelism.
    """

    num_microbatches: int = 1
    schedule: Callable[[int, int], Schedule] = one_f_one_b
    zero: int = 0
    replicas: int = 1
    compute_dtype: torch.dtype | None = None
    sequence_parallel: bool = False
    split_vocabulary: bool = False
    context: Method = RING
    layout: Callable[[int, int], SequenceLayout] = zigzag
    recompute: Recompute = "none"
    max_norm: float | None = None
    bias_rate: float = 0.0
    seed: int = 0
    bucket_bytes: int | None = None

    @property
    def splits_vocabulary(self) -> bool:
        """Whether the embedding and the head are split over the tp ranks."""
        return self.split_vocabulary or self.sequence_parallel

    def lines(self) -> list[str]:
        """All settings as text that is the same in every process, so that ranks can compare it."""
        simple = {name: value for name, value in vars(self).items() if isinstance(value, int | float | str | None)}
        named = {
            "schedule": getattr(self.schedule, "__name__", type(self.schedule).__name__),
            "context": type(self.context).__name__,
            "layout": getattr(self.layout, "__name__", type(self.layout).__name__),
            "compute_dtype": self.compute_dtype,
        }
        return [f"{name} = {value}" for name, value in (simple | named).items()]
