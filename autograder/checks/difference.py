"""A sentence about a wrong value, together with the two values that it compares."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Difference:
    """The expected and the received value of one rank: a number, or a shape or dtype as text.

    what: "number 3" for an element of a flattened tensor, "shape" or "dtype".
    """

    rank: int
    what: str
    expected: float | str
    received: float | str


class Wrong(str):
    """A sentence for the student that also carries its difference, so that nobody has to read it out of the text.

    The difference holds an expected value. It stays on the trusted side: a sentence that is sent is a plain text.
    """

    difference: Difference


def wrong(sentence: str, difference: Difference) -> Wrong:
    """Return the sentence with its difference."""
    carrying = Wrong(sentence)
    carrying.difference = difference
    return carrying


def wrong_property(rank: int, what: str, name: str, expected: str, received: str) -> Wrong:
    """Describe a tensor whose shape or dtype is wrong."""
    sentence = f"On rank {rank}, {what} has {name} {received}, expected {expected}."
    return wrong(sentence, Difference(rank, name, expected, received))


def wrong_number(rank: int, what: str, differs: torch.Tensor, expected: torch.Tensor, received: torch.Tensor) -> Wrong:
    """Describe the first number that differs, and how many do. The sentence does not give the expected number away.

    differs: a mask with the shape of both tensors, true in at least one place.
    """
    index, num = int(differs.flatten().nonzero()[0]), int(differs.sum())
    first, right = received.flatten()[index].item(), expected.flatten()[index].item()
    sentence = (
        f"On rank {rank}, {num} of {expected.numel()} numbers of {what} {'is' if num == 1 else 'are'} wrong: "
        f"number {index} is {first:g}."
    )
    return wrong(sentence, Difference(rank, f"number {index}", right, first))
