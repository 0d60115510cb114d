"""Phrases that read like a translation are kept out of what students, teachers and readers see."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WHERE = (
    "*.md",
    "docs/**/*.md",
    "solutions/week*/week*.py",
    "labs/**/*.py",
    "labs/**/*.md",
    "course/hints.json",
    "autograder/**/*.py",
)
UNITS = "rank|layer|step|bucket|week|node|server|GPU|chunk|token|microbatch|byte|second|message|parameter|sequence"
BETTER = {
    rf"\b(one|once|bytes|seconds|rows|messages|numbers|points|bits) an? ({UNITS})\b": "per",
    r"\bheld against\b": "compared with",
    r"\bAll right\.": "Correct.",
    r"\bfor ever\b": "forever",
    r"\b(that|which|what) (is|are) none\b": "is not one",
    r"\b(that|which) is no (?!longer|more|worse|less)": "is not a",
    r"\bcould not be asked\b": "this check failed",
    r"\bWho (is|has|was|uses|waits)\b[^?\n]{0,60}, \w+s\b": "Whoever …, or: a rank that …",
    r"\bleast slowest\b": "the smallest achievable slowest",
}


def texts():
    for pattern in WHERE:
        for path in ROOT.glob(pattern):
            if not {"known", "data"} & set(path.relative_to(ROOT).parts):
                yield path


@pytest.mark.parametrize("pattern", BETTER, ids=BETTER.values())
def test_no_translated_phrase(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == [], f"better English: {BETTER[pattern]}"


@pytest.mark.parametrize(
    "bad",
    [
        "4 bytes a parameter",
        "one a layer",
        "numbers are held against each other",
        "waits for ever",
        "a file that is none",
        "a value that is no number",
        "Who waits inside a hook, waits",
    ],
)
def test_the_patterns_find_what_they_are_for(bad):
    assert any(re.search(pattern, bad) for pattern in BETTER)
