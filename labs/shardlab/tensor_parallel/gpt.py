"""The plan of the small GPT, and its loss: how each part of the model is split.

| | tensor parallel | and sequence parallel |
|---|---|---|
| embedding | rows; all-reduce | rows; reduce-scatter |
| norms, dropouts, sums | whole on every rank | on a part of the sequence |
| queries, keys, values; up | columns; f | columns; all-gather |
| projection; down | rows; all-reduce | rows; reduce-scatter |
| head, loss | columns; three numbers per token | columns; all-gather, three numbers per token |
"""

from __future__ import annotations

from torch import Tensor

from shardlab.model.gpt import GPTConfig
from shardlab.tensor_parallel.messages import Group
from shardlab.tensor_parallel.plan import Plan, Split
from shardlab.tensor_parallel.splits import Column, Heads, OnPartOfSequence, Positions, Random, Row, Vocabulary
from shardlab.tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy


def block_plan(config: GPTConfig, *, sequence_parallel: bool = False) -> Plan:
    """How one block is split: two all-reduces of bsh in the forward and two in the backward (arXiv 1909.08053).

    sequence_parallel: two all-gathers and two reduce-scatters in the forward; the same in the backward, plus two
    all-gathers of inputs that the forward did not keep (arXiv 2205.05198, section 4.2.2).
    """
    plan: dict[str, Split] = {
        "attention": Heads(sequence_parallel),
        "up": Column(2 if config.gated else 1, sequence=sequence_parallel),
        "down": Row(sequence_parallel),
        "dropout_1": Random(sequence_parallel),
        "dropout_2": Random(sequence_parallel),
    }
    return plan | ({"norm_1": OnPartOfSequence(), "norm_2": OnPartOfSequence()} if sequence_parallel else {})


def gpt_plan(config: GPTConfig, *, sequence_parallel: bool = False) -> Plan:
    """How the whole model is split. It then returns this rank's columns of logits: see `vocabulary_parallel_loss`."""
    plan: dict[str, Split] = {
        f"blocks.*.{path}": split for path, split in block_plan(config, sequence_parallel=sequence_parallel).items()
    }
    plan["token"] = Vocabulary(sequence=sequence_parallel)
    plan["head"] = Vocabulary(sequence=sequence_parallel)
    plan["dropout"] = Random(sequence_parallel)
    if not sequence_parallel:
        return plan
    return plan | {"norm": OnPartOfSequence()} | ({} if config.rope else {"position": Positions()})


def vocabulary_parallel_loss(
    logits_BSV: Tensor, targets_BS: Tensor, *, vocabulary: int, group: Group, label_smoothing: float = 0.0
) -> Tensor:
    """The mean cross-entropy over all tokens, from this rank's columns of logits. It is the same on every rank."""
    return vocabulary_parallel_cross_entropy(
        logits_BSV, targets_BS, vocabulary=vocabulary, group=group, label_smoothing=label_smoothing
    ).mean()
