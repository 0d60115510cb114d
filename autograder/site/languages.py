"""What the site says in two languages: tables beside this file, one line for both, and HTML that holds both at once."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

DATA = Path(__file__).parent / "data"
_PLACE = re.compile(r"^\d+ · ")  # "3 · Notation": the number stays, and has no line of its own
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*(?!\w)")  # 7, 0.14 and 4,096, but not the digits of 1F1B or ZeRO-3


@dataclass(frozen=True)
class Term:
    """A term of the glossary: its names and meaning in both languages, and the week that first needs it."""

    en: str
    zh: str
    week: int
    means: str
    means_zh: str


@cache
def glossary() -> tuple[Term, ...]:
    """The terms in the order of the English alphabet.

    Raises ValueError that names an entry with a missing or unknown line.
    """
    terms = []
    for entry in _table("glossary")["term"]:
        try:
            terms.append(Term(**entry))
        except TypeError as error:
            raise ValueError(f"glossary.toml, {entry.get('en', 'an entry without `en`')}: {error}") from error
    return tuple(sorted(terms, key=lambda term: term.en.lower()))


@cache
def words() -> dict[str, dict[str, str]]:
    """{name: {"en": ..., "zh": ...}} of everything that the site itself says."""
    return _table("words")


def heading_key(heading: str) -> tuple[str, str, list[str]]:
    """What a heading is looked up by: its place ("3 · " or ""), its words with {} for numbers, and these numbers.

    Measured numbers change, and a heading keeps its Chinese line.
    """
    place = match[0] if (match := _PLACE.match(heading)) else ""
    rest = heading[len(place) :]
    return place, _NUMBER.sub("{}", rest), _NUMBER.findall(rest)


def heading_in_chinese(heading: str) -> str:
    """The Chinese of a heading, its place and its numbers kept; inline code stands between backticks.

    Raises ValueError that says which line of headings.toml is missing.
    """
    place, key, numbers = heading_key(heading)
    if key not in _table("headings"):
        raise ValueError(f'the heading "{heading}" has no Chinese: add a line "{key}" = "..." to headings.toml')
    return place + _table("headings")[key].format(*numbers)


def prompt_in_chinese(prompt: str) -> str | None:
    """The Chinese of a question, hint or promise of a page, as of a heading; None where there is none."""
    _, key, numbers = heading_key(" ".join(prompt.replace("`", "").split()))
    return chinese.format(*numbers) if (chinese := _table("prompts").get(key)) else None


def both(english: str, chinese: str) -> str:
    """HTML that holds both; the page's style shows one. `english` and `chinese` are HTML."""
    return f'<span class="en" lang="en">{english}</span><span class="zh" lang="zh-CN">{chinese}</span>'


def say(name: str, **values: object) -> str:
    """HTML of one entry of words.toml in both languages, its {names} replaced."""
    entry = words()[name]
    return both(*(escape(entry[language], quote=False).format(**values) for language in ("en", "zh")))


def inline_code(text: str) -> str:
    """HTML of plain text in which code stands between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


@cache
def _table(name: str) -> dict:
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
