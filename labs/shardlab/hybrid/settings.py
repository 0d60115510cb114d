"""How a model is trained on a mesh, beside the mesh itself: one value that all ranks share."""

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
    """What `MeshTrainer` is told beside model, mesh and optimizer; the same on every rank.

    num_microbatches: of each replica's batch. schedule: one of `pipeline_parallel.builders` that places each stage
    once, (ranks, microbatches) -> schedule; how many stages a rank has is the schedule's affair.
    zero: 0 to 3, over the ranks of dp and cp together, experts over edp. replicas: of each slice (HSDP); these ranks
    are cut into so many groups of neighbours, and slices are summed between the groups.
    compute_dtype: of weights and activations in the passes, such as torch.bfloat16; masters, optimizer states and main
    gradients stay in the model's own type, float32. With zero = 2 or 3 each microbatch's gradients travel in
    compute_dtype, and their sum is kept in the model's.
    sequence_parallel: the tp ranks split the sequence between their matrices. split_vocabulary: they split embedding,
    head and loss, too, as sequence parallelism needs it.
    context, layout: how attention reaches the keys of other cp ranks, and who has which tokens.
    recompute: of the attention's core ("selective"), of each block ("full"), or of a whole stage from its input.
    max_norm: of the whole model's gradient; None never clips. bias_rate: of the routers' biases, 0 for none.
    seed: of the dropouts. bucket_bytes: None for data parallelism's own.
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
        """Whether embedding and head lie in parts on the tp ranks."""
        return self.split_vocabulary or self.sequence_parallel

    def lines(self) -> list[str]:
        """All of it as text that is the same in every process, for ranks to compare."""
        simple = {name: value for name, value in vars(self).items() if isinstance(value, int | float | str | None)}
        named = {
            "schedule": getattr(self.schedule, "__name__", type(self.schedule).__name__),
            "context": type(self.context).__name__,
            "layout": getattr(self.layout, "__name__", type(self.layout).__name__),
            "compute_dtype": self.compute_dtype,
        }
        return [f"{name} = {value}" for name, value in (simple | named).items()]
