"""Find pairs of submissions that are more similar than the exercise requires: leads for a human, not verdicts.

Text that students were given (the stub, the notebook's own cells) and text in the reference solutions has weight 0;
text that much of the class shares has little weight. rapidfuzz then finds the runs of tokens that two answers share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from rapidfuzz.distance import Indel, Opcode

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.integrity.tokens import Token, code_tokens, text_tokens
from autograder.reading import ingest

RUN = 8  # tokens per n-gram; `dist.get_rank(group)` has six tokens
LEAST_SHARED = 20.0  # weighted tokens; two students can write a shorter match independently
LEAST_PERCENT = 70.0
SMALL_CLASS = 8  # answers; with fewer, common code keeps its full weight
EXTRA = "own cells"
NOTE = (
    "Leads for a human, not verdicts: read both answers, and ask both students, before you draw any conclusion. "
    "Students who study together, or from the same page, write similar code."
)
Grams = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Pair:
    """Two similar answers: they share `shared` weighted tokens, `percent` of the shorter answer's original tokens."""

    first: str
    second: str
    exercise: str
    percent: float
    shared: float
    fragment: str


@dataclass(frozen=True)
class Report:
    """The pairs, most shared first, and how many answers per exercise have too few original tokens to compare."""

    pairs: list[Pair]
    num_answers: dict[str, int]
    num_too_short: dict[str, int]


@dataclass(frozen=True)
class Answer:
    """One answer as two token streams: of its syntax tree (None if it does not parse) and of its text."""

    student: str
    source: str
    tree: list[Token] | None
    text: list[Token]


@dataclass(frozen=True)
class _Stream:
    """The tokens of an answer with their weights, from 0 (required by the exercise) to 1 (the student's own)."""

    answer: Answer
    tokens: list[Token]
    texts: list[str]
    weights: list[float]

    @property
    def own(self) -> float:
        """The sum of the weights."""
        return sum(self.weights)


def compare_week(week: str, submitted: Path, students: Sequence[str], root: Path = ROOT) -> Report:
    """Compare the answers of a week per exercise, plus the students' extra cells, which count as one more exercise."""
    week = notebooks.find_week(week, root)
    cells = [cell for cell in notebooks.release(week, root).cells if cell.cell_type in ("code", "markdown")]
    answered = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    given = [(cell.source, cell.cell_type == "code") for cell in cells]
    given += [(cell.source, cell.cell_type == "code") for cell in notebooks.read_source(week, root).cells]
    stubs = {cell.metadata.nbgrader.grade_id: cell.source.strip() for cell in answered}
    is_code = {notebooks.exercise_id(cell.metadata.nbgrader.grade_id): cell.cell_type == "code" for cell in answered}
    answers: dict[str, list[Answer]] = {name: [] for name in [*is_code, EXTRA]}
    for student in students:
        submission = ingest.read_submission(student, week, submitted, root)
        for name, source in submission.cells.items():
            exercise = notebooks.exercise_id(name)
            if source.strip() != stubs.get(name):
                answers[exercise].append(read_answer(student, source, is_code[exercise]))
        if submission.extra:
            answers[EXTRA].append(read_answer(student, "\n".join(submission.extra)))
    return compare(answers, [read_answer("", source, code) for source, code in given])


def read_answer(student: str, source: str, code: bool = True) -> Answer:
    """Turn source code into both token streams."""
    return Answer(student, source, code_tokens(source) if code else None, text_tokens(source, code))


def compare(answers: dict[str, list[Answer]], given: Sequence[Answer]) -> Report:
    """Compare the answers of each exercise; `given` is text that students did not write: stubs, cells, references."""
    pairs: list[Pair] = []
    short: dict[str, int] = {}
    forced = {tree: _count(_streams_of(given, tree)) for tree in (True, False)}
    for exercise, those in answers.items():
        as_trees, as_texts = (_weigh(those, forced[tree], tree) for tree in (True, False))
        best = [tree or text for tree, text in zip(as_trees, as_texts, strict=True) if tree or text]
        short[exercise] = sum(stream.own < LEAST_SHARED for stream in best if stream is not None)
        for one, other in combinations(range(len(those)), 2):
            trees = as_trees[one], as_trees[other]
            first, second = trees if all(trees) else (as_texts[one], as_texts[other])
            if first and second and (pair := _compare(first, second, exercise)) is not None:
                pairs.append(pair)
    counts = {exercise: len(those) for exercise, those in answers.items()}
    return Report(sorted(pairs, key=lambda pair: (-pair.shared, pair.first, pair.second)), counts, short)


def _compare(first: _Stream, second: _Stream, exercise: str) -> Pair | None:
    """Return the pair if it shares enough, else None."""
    least = min(first.own, second.own)
    if least < LEAST_SHARED:
        return None
    runs = [
        (_shared(first, second, block), block)
        for block in Indel.opcodes(first.texts, second.texts)
        if block.tag == "equal" and block.src_end - block.src_start >= RUN
    ]
    shared = sum(weight for weight, _ in runs)
    percent = 100 * shared / least
    if shared < LEAST_SHARED or percent < LEAST_PERCENT:
        return None
    _, longest = max(runs, key=lambda run: run[0])
    fragment = _lines(first, longest.src_start, longest.src_end)
    return Pair(first.answer.student, second.answer.student, exercise, round(percent, 1), round(shared, 1), fragment)


def _shared(first: _Stream, second: _Stream, block: Opcode) -> float:
    """Return the weight of a run that both answers have."""
    ours, theirs = first.weights[block.src_start : block.src_end], second.weights[block.dest_start : block.dest_end]
    return sum(map(min, ours, theirs))


def _lines(stream: _Stream, begin: int, end: int) -> str:
    """Return the lines of an answer that contain a run of its tokens, as the student wrote them."""
    numbers = sorted({token.line for token in stream.tokens[begin:end]} - {0})
    source = stream.answer.source.split("\n")
    return "\n".join(source[number - 1].strip() for number in numbers if number <= len(source))


def _weigh(answers: Sequence[Answer], forced: Grams, tree: bool) -> list[_Stream | None]:
    """Weigh each token of each answer: 0 if it is in a forced run, little if much of the class has that run."""
    streams = [answer.tree if tree else answer.text for answer in answers]
    common = _count(stream for stream in streams if stream is not None)
    size = sum(stream is not None for stream in streams)
    weighed: list[_Stream | None] = []
    for answer, stream in zip(answers, streams, strict=True):
        if stream is None:
            weighed.append(None)
            continue
        texts = [token.text for token in stream]
        weights = [1.0] * len(texts)
        for place, gram in enumerate(_grams(texts)):
            weight = 0.0 if gram in forced else rarity(common[gram], size)
            for covered in range(place, min(place + RUN, len(texts))):
                weights[covered] = min(weights[covered], weight)
        weighed.append(_Stream(answer, stream, texts, weights))
    return weighed


def rarity(num_answers: int, size: int) -> float:
    """Return the weight of a run that `num_answers` of `size` have: 1 for just two, 0 for half of the class or more."""
    if size < SMALL_CLASS or num_answers <= 2:
        return 1.0
    return max(0.0, math.log(size / 2 / num_answers) / math.log(size / 4))


def _streams_of(answers: Iterable[Answer], tree: bool) -> Iterator[list[Token]]:
    for answer in answers:
        stream = answer.tree if tree else answer.text
        if stream is not None:
            yield stream


def _count(streams: Iterable[list[Token]]) -> Grams:
    """Count in how many streams each run occurs."""
    return Counter(gram for stream in streams for gram in set(_grams([token.text for token in stream])))


def _grams(texts: list[str]) -> list[tuple[str, ...]]:
    return [tuple(texts[place : place + RUN]) for place in range(max(1, len(texts) - RUN + 1))]
