"""Tensor parallelism: each rank has a part of each matrix and, with sequence parallelism, of each sequence."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.tensor_parallel.gpt import block_plan
    from shardlab.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from shardlab.tensor_parallel.operators import (
        copy_to_tp,
        gather,
        gather_to_all,
        reduce_from_tp,
        split,
        sum_and_scatter,
    )
    from shardlab.tensor_parallel.plan import apply_plan
    from shardlab.tensor_parallel.splits import Column, Row
    from shardlab.tensor_parallel.vocabulary import VocabularyParallelEmbedding, vocabulary_parallel_cross_entropy
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
