"""Every rank has a part of each matrix: column and row layers, and a transformer block made of them."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    blocks=("ParallelAttention", "ParallelBlock", "ParallelMLP"),
    layers=("ColumnParallelLinear", "RowParallelLinear", "split_parameters"),
    operators=("sum_of_all", "to_all"),
)
