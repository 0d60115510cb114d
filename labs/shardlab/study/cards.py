"""Interview questions at growing intervals: Leitner's boxes, computed from the records of earlier answers.

Sebastian Leitner, So lernt man lernen (1972): a card you knew moves to the next box, any other back to the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shardlab.costs import Layout, find_accelerator, find_model
from shardlab.study import records
from shardlab.study.folder import Folder
from shardlab.study.interview import QUESTIONS, Setting
from shardlab.study.interview.asking import asked
from shardlab.study.records import Record

DAYS = (1, 2, 4, 8, 16)  # until a card in box 1, 2, … is due again


@dataclass(frozen=True)
class Card:
    """A question with its model answer. In box 0 it was never asked; `due` is when to ask it next."""

    key: str
    week: str
    question: str
    answer: str
    box: int
    due: datetime


def setting() -> Setting:
    """The setting whose numbers appear in the questions: Llama 3 70B on 512 H100s."""
    layout = Layout(tp=8, pp=4, dp=16, num_microbatches=64, zero=1, sequence_parallel=True)
    return Setting(find_model("llama3-70b"), layout, find_accelerator("h100"), tokens=2e12)


def cards(rows: Sequence[Record]) -> list[Card]:
    """All cards in the order of the weeks, each in its box according to the records."""
    boxes: dict[str, tuple[int, datetime]] = {}
    for row in rows:
        if row["event"] == "card" and isinstance(row.get("card"), str):
            box = min(boxes.get(row["card"], (0, None))[0] + 1, len(DAYS)) if row.get("known") else 1
            boxes[row["card"]] = (box, records.when(row) + timedelta(days=DAYS[box - 1]))
    numbers, found = setting(), []
    for question in QUESTIONS:
        key = hashlib.sha256(question.asked.encode()).hexdigest()[:10]
        text = asked(question, numbers)
        box, due = boxes.get(key, (0, datetime.fromtimestamp(0, UTC)))
        found.append(Card(key, question.week, text.question, text.answer, box, due))
    return found


def due(folder: Folder, rows: Sequence[Record], *, now: datetime | None = None, every_week: bool = False) -> list[Card]:
    """The cards to ask now: those of weeks you have begun, longest overdue first, then new ones.

    every_week: include weeks without a record.
    """
    begun = {row["exercise"].partition(".")[0] for row in rows}
    moment = now or datetime.now(UTC)
    wanted = [card for card in cards(rows) if card.due <= moment and (every_week or card.week in begun)]
    return sorted(wanted, key=lambda card: (card.box == 0, card.due))


def answered(folder: Folder, card: Card, known: bool, *, now: datetime | None = None) -> str:
    """Record whether a card was known; returns "" or why it could not be recorded."""
    return records.note("card", at=now, path=folder.path, card=card.key, known=known)
