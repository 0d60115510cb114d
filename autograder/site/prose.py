"""Markdown as HTML that loads nothing: bilingual headings, links to the site's own pages, formulas as MathML."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Any

from mistune.util import striptags
from nbconvert.filters.markdown_mistune import MarkdownWithMath

from autograder.grading.answer_html import WithoutScripts
from autograder.site.languages import both, heading_in_chinese, inline_marks, prompt_in_chinese
from autograder.site.links import Links

_QUESTION = re.compile(r"(?<=<summary>).*?(?=</summary>)", re.DOTALL)


@dataclass
class Prose:
    """Render the Markdown of one page as HTML; `anchors` counts the anchors used so far, to keep them unique.

    page: the page that shows the HTML: a path in the repository, or one of the site's own pages.
    written_in: the path that links are relative to, if the Markdown comes from another page.
    """

    page: str
    links: Links
    below: int = 0  # number of levels by which all headings are moved down
    written_in: str = ""
    anchors: Counter[str] = field(default_factory=Counter)

    def html(self, markdown: str) -> str:
        """Render some Markdown of this page.

        Raises ValueError for a heading without a Chinese translation.
        """
        return MarkdownWithMath(renderer=_Renderer(self)).render(markdown)

    def inline(self, markdown: str) -> str:
        """Render a line of Markdown inside HTML, without a paragraph around it."""
        renderer = _Renderer(self)
        parser = MarkdownWithMath(renderer=renderer)
        return renderer(parser.inline(markdown.strip(), {}), parser.block.state_cls())

    def anchor(self, heading: str) -> str:
        """Return the anchor that GitHub gives a heading, so that links written for the repository work here too."""
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
        said = both(text, inline_marks(heading_in_chinese(plain)))
        return f'<h{level} id="{anchor}">{said}<a class="anchor" href="#{anchor}" aria-hidden="true">#</a></h{level}>\n'

    def paragraph(self, text: str) -> str:
        return f"<p>{_asked(text)}</p>\n"

    def block_text(self, text: str) -> str:
        return _asked(text)  # an entry of a list: what a reader can do after the week

    def emphasis(self, text: str) -> str:
        return f"<em>{_asked(text)}</em>"

    def block_html(self, html: str) -> str:
        return _QUESTION.sub(lambda match: _asked(self.prose.inline(match[0])), html) + "\n"

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
    """Return HTML in both languages if its text has a Chinese translation, else unchanged."""
    chinese = prompt_in_chinese(unescape(striptags(html)))
    return both(html, inline_marks(chinese)) if chinese else html
