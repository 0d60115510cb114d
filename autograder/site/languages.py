"""The site's texts in two languages: tables in data/, with one entry for both languages, and HTML that has both."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

DATA = Path(__file__).parent / "data"
_PLACE = re.compile(r"^\d+ · ")  # "3 · Notation": the number is kept and not part of the key
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,]\d+)*(?!\w)")  # 7, 0.14 and 4,096, but not the digits of 1F1B or ZeRO-3


@dataclass(frozen=True)
class Term:
    """A glossary term: its names and meaning in both languages, and the week that first uses it."""

    en: str
    zh: str
    week: int
    means: str
    means_zh: str


@cache
def glossary() -> tuple[Term, ...]:
    """Return the terms in English alphabetical order.

    Raises ValueError that names an entry with a missing or unknown key.
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
    """Return {name: {"en": ..., "zh": ...}} for every text of the site's own user interface."""
    return _table("words")


def heading_key(heading: str) -> tuple[str, str, list[str]]:
    """Split a heading for lookup: its place ("3 · " or ""), its words with {} in place of numbers, and these numbers.

    Because numbers are not part of the key, a heading keeps its translation when a measured number changes.
    """
    place = match[0] if (match := _PLACE.match(heading)) else ""
    rest = heading[len(place) :]
    return place, _NUMBER.sub("{}", rest), _NUMBER.findall(rest)


def heading_in_chinese(heading: str) -> str:
    """Return a heading in Chinese with its place and numbers; inline code is in backticks.

    Raises ValueError that says which line of headings.toml is missing.
    """
    place, key, numbers = heading_key(heading)
    if key not in _table("headings"):
        raise ValueError(f'the heading "{heading}" has no translation: add a line "{key}" = "..." to headings.toml')
    return place + _table("headings")[key].format(*numbers)


def prompt_in_chinese(prompt: str) -> str | None:
    """Return a goal, question, hint or promise of a page in Chinese, looked up like a heading; None if unknown."""
    _, key, numbers = heading_key(" ".join(prompt.replace("`", "").split()))
    return chinese.format(*numbers) if (chinese := _table("prompts").get(key)) else None


def both(english: str, chinese: str) -> str:
    """Return HTML with both languages, one of which the page's style shows. `english` and `chinese` are HTML."""
    return f'<span class="en" lang="en">{english}</span><span class="zh" lang="zh-CN">{chinese}</span>'


def say(name: str, **values: object) -> str:
    """Return an entry of words.toml as HTML in both languages, with its {names} replaced."""
    entry = words()[name]
    return both(*(escape(entry[language], quote=False).format(**values) for language in ("en", "zh")))


def inline_marks(text: str) -> str:
    """Convert plain text with `code` and **bold** words to HTML."""
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", code)


@cache
def _table(name: str) -> dict:
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
