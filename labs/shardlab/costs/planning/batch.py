"""Sequences per step from tokens: a number the cluster can share evenly, which a round token count rarely is."""

from dataclasses import dataclass

from shardlab.costs.models.model import divisors

MOST_CHANGE = 0.05  # share of the tokens: a decimal "4M" is 4.9% less than 2^22 = 4,194,304


@dataclass(frozen=True)
class TokenBatch:
    """The requested tokens per step, and the number of sequences of this length that is planned for them."""

    asked_tokens: int
    sequence: int
    sequences: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.sequence

    @property
    def change(self) -> float:
        """Planned over requested, p/a - 1."""
        return self.tokens / self.asked_tokens - 1


def exact_batch(tokens: int, sequence: int) -> TokenBatch:
    """The nearest whole number of sequences. Raises ValueError for less than one."""
    if tokens < sequence:
        raise ValueError(f"{tokens:,} tokens are fewer than one sequence of {sequence:,}: use {sequence} or more")
    return TokenBatch(tokens, sequence, round(tokens / sequence))


def shared_batch(tokens: int, sequence: int, num_gpus: int) -> TokenBatch:
    """The nearest batch, within 5%, that is a multiple of the largest possible divisor of the number of GPUs.

    A layout splits a batch into dp * b * m sequences, and an interleaved pipeline runs m in groups of pp, so factors of
    the GPUs are useful for dp and pp. 1,953 sequences = 3 * 3 * 7 * 31 on 1,024 GPUs allow no even dp; 2,048 allow all.
    Raises ValueError for less than one sequence.
    """
    exact = exact_batch(tokens, sequence)
    for divisor in reversed(divisors(num_gpus)):
        near = TokenBatch(tokens, sequence, round(tokens / sequence / divisor) * divisor)
        if near.sequences and abs(near.change) <= MOST_CHANGE:
            return near
    return exact
