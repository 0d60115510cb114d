"""Questions with their numbers filled in, in random order."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from shardlab.study.interview.bank import QUESTIONS
from shardlab.study.interview.question import Question, Setting


@dataclass(frozen=True)
class Asked:
    """A question and its model answer, with numbers filled in."""

    week: str
    question: str
    answer: str


def asked(question: Question, setting: Setting) -> Asked:
    """The question with the numbers of a setting."""
    numbers = question.numbers(setting)
    return Asked(question.week, question.asked.format(**numbers), question.answer.format(**numbers))


def asked_in_random_order(
    setting: Setting, seed: int | None = None, questions: Sequence[Question] = QUESTIONS
) -> list[Asked]:
    """All questions, each once. seed: None for a different order each time."""
    order = list(questions)
    Random(seed).shuffle(order)
    return [asked(question, setting) for question in order]
