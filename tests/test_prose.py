"""Phrases that read like a translation are kept out of pages, docs, messages, docstrings and comments."""

import io
import re
import tokenize
import tomllib
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
PHRASES = tomllib.loads((ROOT / "tests" / "translated.toml").read_text(encoding="utf-8"))
BETTER = {one["pattern"].replace("UNIT", f"({PHRASES['units']})"): one for one in PHRASES["phrase"]}


@cache
def prose() -> dict[str, list[str]]:
    """What people read, by file, line by line: comments and strings of Python, all of the other files."""
    paths = {path for pattern in WHERE for path in ROOT.glob(pattern)}
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
@pytest.mark.parametrize("pattern", BETTER, ids=[one["better"] for one in BETTER.values()])
def test_no_translated_phrase(pattern):
    found = [f"{path}:{line}" for path, lines in prose().items() for line in lines if finds(pattern, line)]
    assert found == [], f"better English: {BETTER[pattern]['better']}"


@pytest.mark.parametrize("pattern", BETTER, ids=[one["better"] for one in BETTER.values()])
def test_a_pattern_finds_what_it_is_for_and_leaves_good_english_alone(pattern):
    assert BETTER[pattern]["finds"] and all(finds(pattern, bad) for bad in BETTER[pattern]["finds"])
    assert not any(finds(one, good) for good in BETTER[pattern].get("leaves", []) for one in BETTER)
