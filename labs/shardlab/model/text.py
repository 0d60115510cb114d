"""Text as byte tokens, and batches that depend on step and rank."""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase, digits, punctuation

import torch
from torch import Tensor

VOCABULARY = 256
KINDS = {
    "space": " ",
    "new line": "\n",
    "vowel": "aeiou",
    "consonant": "bcdfghjklmnpqrstvwxyz",
    "capital": ascii_uppercase,
    "digit": digits,
    "sign": punctuation,
}  # "other": bytes beyond ASCII, such as those of a Chinese character


def read_text(folder: str | Path) -> Tensor:
    """The concatenated bytes of all Markdown files in a folder; lab 3 trains on the course's own pages.

    Raises ValueError for a folder with less than 10 KB of text.
    """
    inside = ((path, path.relative_to(folder).parts) for path in Path(folder).rglob("*.md"))
    files = sorted(path for path, parts in inside if not any(part.startswith(".") for part in parts))
    text = b"\n".join(path.read_bytes() for path in files)
    if len(text) < 10_000:
        raise ValueError(
            f"{folder} has {len(text)} bytes of Markdown: give a folder with 10,000 or more, such as docs/"
        )
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def batch_of(text: Tensor, *, step: int, rank: int, batch: int, sequence: int) -> tuple[Tensor, Tensor]:
    """Tokens and their labels (the next tokens), [batch, sequence] each; a different draw for each step and rank."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    starts = torch.randint(len(text) - sequence - 1, (batch, 1), generator=generator)
    rows = text[starts + torch.arange(sequence + 1)]
    return rows[:, :-1], rows[:, 1:]


def kind_of(token: int) -> str:
    """The kind of character that a byte is: one of the keys of `KINDS`, or "other"."""
    return next((kind for kind, characters in KINDS.items() if chr(token) in characters), "other")
