"""Phrases that read like a translation are kept out of pages, docs, messages, docstrings and comments."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHERE = (
    "*.md",
    "docs/**/*.md",
    "solutions/week*/*.py",
    "labs/**/*.py",
    "labs/**/*.md",
    "course/hints.json",
    "autograder/**/*.py",
    "benchmarks/**/*.py",
    "tests/**/*.py",
)
TEXTS = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
UNITS = "rank|layer|step|bucket|week|node|server|GPU|chunk|token|microbatch|byte|second|message|parameter|sequence"
BETTER = {  # of a phrase that is always wrong here; case does not matter
    rf"\b(one|once|bytes|seconds|rows|messages|numbers|points|bits) an? ({UNITS})\b": "per",
    r"\bheld against\b|\b(lay|lays|laid|put|puts) (it |them |these |those |both )?beside\b": "compared with",
    r"(?<!\bnot )\ball right\.": "Correct.",
    r"\bfor ever\b": "forever",
    r"\b(that|which|what) (is|are) none\b": "is not one",
    r"\b(that|which) is no (?!longer|more|worse|less|good)": "is not a",
    r"\bcould not be asked\b": "this check failed",
    r"\b(?-i:Who) (is|has|was|uses|waits)\b[^?\n]{0,60}, \w+s\b": "a rank that …",
    r"\bwhoever\b": "anyone who …, or name the part that acts",
    r"\bleast slowest\b": "the smallest achievable slowest",
    r"\bin the small\b": "a small version",
    r"\b(ranks?|do|does|everywhere) alike\b": "in the same way on every rank",
    r"\bat most so (many|much)\b": "at most `limit` …",
    r"\baffairs?\b": "is determined by …",
    r"\bthere is no now\b": "no longer exists",
    r"\b(a|another|each|every|one) training[.,;:)]|(?<![-_])\btrainings\b": "training run",
    r"\bcarr(y|ies|ied|ying) the \w+ home\b": "returns, or sums",
    r"\bthe own\b": "its own",
}


@cache
def prose() -> dict[str, list[str]]:
    """What people read, by file, line by line: comments and strings of Python, all of the other files."""
    paths = {path for pattern in WHERE for path in ROOT.glob(pattern)} - {Path(__file__)}
    ours = sorted(path for path in paths if not {"known", "data"} & set(path.relative_to(ROOT).parts))
    return {str(path.relative_to(ROOT)): list(lines_of(path)) for path in ours}


def lines_of(path: Path) -> Iterator[str]:
    """Each line of text as "number: text"."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        texts = [(1, source)]
    else:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        texts = [(one.start[0], one.string) for one in tokens if one.type in TEXTS]
    for first, text in texts:
        yield from (f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), first))


def finds(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


@pytest.mark.every_case
@pytest.mark.parametrize("pattern", BETTER, ids=BETTER.values())
def test_no_translated_phrase(pattern):
    found = [f"{path}:{line}" for path, lines in prose().items() for line in lines if finds(pattern, line)]
    assert found == [], f"better English: {BETTER[pattern]}"


@pytest.mark.parametrize(
    "bad",
    [
        "4 bytes a parameter",
        "one a layer",
        "numbers are held against each other",
        "Lay it beside the formula",
        "waits for ever",
        "a file that is none",
        "a value that is no number",
        "Who waits inside a hook, waits",
        "Whoever reduces them holds few",
        "three axes of it in the small, and asleep",
        "ranks alike",
        "is the schedule's affair",
        "A training, begun anew",
        "trainings of two models",
        "carries the loss home",
        "scores of the own queries",
    ],
)
def test_the_patterns_find_what_they_are_for(bad):
    assert any(finds(pattern, bad) for pattern in BETTER)


@pytest.mark.parametrize(
    "good",
    [
        "4 bytes per parameter",
        "who is late",
        "a training loop",
        "a value that is no longer used",
        "the ranks look alike",
    ],
)
def test_the_patterns_leave_good_english_alone(good):
    assert not any(finds(pattern, good) for pattern in BETTER)
