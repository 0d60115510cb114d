"""Markdown as HTML that loads nothing: headings in two languages, links to the site's own pages, formulas as MathML."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any

from mistune.util import striptags
from nbconvert.filters.markdown_mistune import MarkdownWithMath

from autograder.grading.answer_html import WithoutScripts
from autograder.site.languages import both, heading_in_chinese, inline_code, prompt_in_chinese
from autograder.site.links import Links


@dataclass
class Prose:
    """What turns the Markdown of one page into HTML; `anchors` counts those that the page has, so that each is one.

    page: where the HTML stands, a path in the repository or a page of the site's own.
    written_in: the path whose links these are, if the Markdown is another page's.
    """

    page: str
    links: Links
    below: int = 0  # levels that all headings are moved down
    written_in: str = ""
    anchors: Counter[str] = field(default_factory=Counter)

    def html(self, markdown: str) -> str:
        """The HTML of some Markdown of this page.

        Raises ValueError for a heading without Chinese.
        """
        return MarkdownWithMath(renderer=_Renderer(self)).render(markdown)

    def anchor(self, heading: str) -> str:
        """The name that GitHub gives to a heading, so that links of the repository lead here too."""
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        self.anchors[name] += 1
        return name if self.anchors[name] == 1 else f"{name}-{self.anchors[name] - 1}"


class _Renderer(WithoutScripts):
    def __init__(self, prose: Prose) -> None:
        super().__init__(escape=False)
        self.prose = prose

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        plain = unescape(striptags(text))
        anchor, level = self.prose.anchor(plain), min(6, level + self.prose.below)
        said = both(text, inline_code(heading_in_chinese(plain)))
        return f'<h{level} id="{anchor}">{said}<a class="anchor" href="#{anchor}" aria-hidden="true">#</a></h{level}>\n'

    def paragraph(self, text: str) -> str:
        return f"<p>{_asked(text)}</p>\n"

    def emphasis(self, text: str) -> str:
        return f"<em>{_asked(text)}</em>"

    def block_html(self, html: str) -> str:
        return re.sub(r"(?<=<summary>).*?(?=</summary>)", lambda match: _asked(match[0]), html, flags=re.DOTALL) + "\n"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if re.match(r"https?:|mailto:", url):
            return f'<a href="{escape(url)}" rel="noopener noreferrer">{text}</a>'
        address = self.prose.links.address(self.prose.page, url, self.prose.written_in)
        return f'<a href="{escape(address)}">{text}</a>' if address else text

    def image(self, text: str, url: str, title: str | None = None) -> str:
        address = self.prose.links.picture(self.prose.page, url)
        return f'<img class="figure" alt="{escape(striptags(text))}" src="{address}" loading="lazy">'

    def table(self, text: str) -> str:
        return f'<div class="wide" tabindex="0"><table>{text}</table></div>\n'


def _asked(html: str) -> str:
    """HTML in both languages where its words have Chinese, else as it is."""
    chinese = prompt_in_chinese(unescape(striptags(html)))
    return both(html, inline_code(chinese)) if chinese else html
