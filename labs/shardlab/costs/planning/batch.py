"""Sequences of a step from its tokens: as many as a cluster can share out, which a round number of tokens seldom is."""

from dataclasses import dataclass

from shardlab.costs.models.model import divisors

MOST_CHANGE = 0.05  # of the tokens: "4M" in decimals is 4.9% less than 2^22 = 4,194,304


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of a step that were asked for, and the sequences of this many tokens that are planned for them."""

    asked_tokens: int
    sequence: int
    sequences: int

    @property
    def tokens(self) -> int:
        return self.sequences * self.sequence

    @property
    def change(self) -> float:
        """Planned against asked for, p/a - 1."""
        return self.tokens / self.asked_tokens - 1


def exact_batch(tokens: int, sequence: int) -> TokenBatch:
    """The nearest whole number of sequences. Raises ValueError for less than one."""
    if tokens < sequence:
        raise ValueError(f"{tokens:,} tokens are less than one sequence of {sequence:,}: use {sequence} or more")
    return TokenBatch(tokens, sequence, round(tokens / sequence))


def shared_batch(tokens: int, sequence: int, num_gpus: int) -> TokenBatch:
    """The nearest batch, within 5%, that is a multiple of the largest possible divisor of the number of GPUs.

    A layout cuts a batch into dp * b * m sequences, and an interleaved pipeline runs m in rounds of pp: what divides
    the GPUs serves dp and pp. Of 1,953 sequences on 1,024 GPUs, 3 * 3 * 7 * 31, no even dp is left; of 2,048 all.
    Raises ValueError for less than one sequence.
    """
    exact = exact_batch(tokens, sequence)
    for divisor in reversed(divisors(num_gpus)):
        near = TokenBatch(tokens, sequence, round(tokens / sequence / divisor) * divisor)
        if near.sequences and abs(near.change) <= MOST_CHANGE:
            return near
    return exact
