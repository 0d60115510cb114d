"""Every rank has a part of each matrix, and with sequence parallelism of each sequence: operators, layers, a plan."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    agreement=("check_same_batch",),
    checkpoint=("joined", "parted"),
    cut=("Cut",),
    gpt=("block_plan", "gpt_plan", "vocabulary_parallel_loss"),
    gradients=("cuts_of", "split_parameters", "sum_partial_gradients"),
    layers=("ColumnParallelLinear", "RowParallelLinear"),
    operators=("gather", "gather_to_all", "split", "sum_and_scatter", "reduce_from_tp", "copy_to_tp"),
    plan=("apply_plan",),
    randomness=("RandomStreams",),
    splits=("Column", "Heads", "OnPartOfSequence", "Positions", "Random", "Row", "Vocabulary"),
    vocabulary=("VocabularyParallelEmbedding", "vocabulary_parallel_cross_entropy"),
)
