"""Build the search index: one entry per section of a page, with its prose but no code cells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bs4 import BeautifulSoup, NavigableString, Tag
from bs4.element import PageElement

from autograder.site.pages import Page

HEADINGS = ("h1", "h2", "h3")
LEFT_OUT = "pre, .anchor, .highlight, .label, .folded, .frames, style"


@dataclass(frozen=True)
class Section:
    """A section: its address with anchor; titles of page and section and its text, each in English and in Chinese.

    The English text is what an English reader sees. The Chinese one is only what is translated: most prose is English.
    """

    address: str
    page: tuple[str, str]
    heading: tuple[str, str]
    text: tuple[str, str]


def index_script(pages: Iterable[Page]) -> str:
    """Return the index as a script: a page opened from a folder may load scripts, but no other files."""
    rows = [[one.address, *one.page, *one.heading, *one.text] for page in pages for one in sections_of(page)]
    return f"window.SEARCH_INDEX = {json.dumps(rows, ensure_ascii=False, separators=(',', ':'))};\n"


def sections_of(page: Page) -> Iterator[Section]:
    """Yield the sections of a page in order; each glossary term is a section. Source files have none."""
    if page.kind in ("file", "index"):
        return
    soup = BeautifulSoup(page.body, "html.parser")
    for tag in soup.select(LEFT_OUT):
        tag.decompose()
    title = _languages(BeautifulSoup(page.title, "html.parser"))
    starts = soup.select(".term") or soup.find_all(HEADINGS)
    for place, start in enumerate(starts):
        anchor = f"#{start['id']}" if start.get("id") else ""
        if "term" in (start.get("class") or []):
            names = [_words(one) for one in start.select("dt b")]
            meaning = [text for one in start.select("dd") for text in one.find_all(string=True)]
            yield Section(page.address + anchor, title, (names[0], names[1]), _texts(meaning))
            continue
        following = starts[place + 1] if place + 1 < len(starts) else None
        yield Section(page.address + anchor, title, _languages(start), _texts(_until(start, following)))


def _until(start: Tag, end: Tag | None) -> Iterator[PageElement]:
    """Yield the text between a heading and the next."""
    for element in start.next_elements:
        if element is end:
            return
        if isinstance(element, NavigableString) and start not in element.parents:
            yield element


def _texts(strings: Iterable[PageElement]) -> tuple[str, str]:
    """Return text as an English reader sees it, and its Chinese translations."""
    english, chinese = "", ""
    for one in strings:
        space = not str(one).strip()  # between two paragraphs
        translated = one.find_parent(class_="zh") is not None
        english += str(one) if space or not translated else ""
        chinese += str(one) if space or translated else ""
    return " ".join(english.split()), " ".join(chinese.split())


def _languages(tag: Tag | BeautifulSoup) -> tuple[str, str]:
    english, chinese = tag.find(class_="en"), tag.find(class_="zh")
    return (_words(english), _words(chinese)) if english and chinese else (_words(tag), _words(tag))


def _words(tag: Tag | None) -> str:
    return " ".join(tag.get_text(" ").split()) if tag else ""
