"""A written answer as HTML that loads nothing: formulas become MathML, which browsers draw themselves, images words.

What a student writes reaches the converter, so its output is taken only if it is made of elements and attributes that
show formulas and nothing else; every other formula stands there as its TeX source.
"""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mistune.util import striptags
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

MOST_TEX = 1000  # characters of one formula
MATHML = "http://www.w3.org/1998/Math/MathML"
ELEMENTS = """
    math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mmultiscripts
    mprescripts none mtable mtr mtd mstyle mpadded mphantom menclose
"""
ATTRIBUTES = """
    accent columnalign columnlines columnspacing depth display displaystyle fence form height largeop linebreak
    linethickness lspace mathsize mathvariant maxsize minsize movablelimits notation rowlines rowspacing rspace
    scriptlevel separator stretchy symmetric width xmlns
"""
_ELEMENTS = frozenset(f"{{{MATHML}}}{name}" for name in ELEMENTS.split())
_ATTRIBUTES = frozenset(ATTRIBUTES.split())


def answer_html(source: str) -> str:
    """The HTML of a written answer in Markdown; its own HTML, escaped already or not, is shown as text."""
    written = source.replace("&lt;", "<").replace("&#33;", "!")  # as `ingest.restore` has escaped them
    try:
        return MarkdownWithMath(renderer=_Renderer(escape=True, allow_harmful_protocols=False)).render(written)
    except Exception:  # nested too deeply, for example
        return f"<pre>{escape(written)}</pre>"


def formula_html(tex: str, *, display: bool = False) -> str:
    """A formula as MathML, or its source where that cannot be had."""
    try:
        mathml = convert(tex, display="block" if display else "inline") if len(tex) <= MOST_TEX else ""
        if mathml and _shows_a_formula(ElementTree.fromstring(mathml)):
            return mathml
    except Exception:  # whatever the converter trips over
        pass
    return f'<code class="{"tex-block" if display else "tex"}">{escape(tex)}</code>'


def _shows_a_formula(root: ElementTree.Element) -> bool:
    return all(one.tag in _ELEMENTS and _ATTRIBUTES.issuperset(one.attrib) for one in root.iter())


class WithoutScripts(IPythonRenderer):
    """As nbconvert's, for a page that loads no script: formulas become MathML, and drawings in words stay words."""

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre><code>{escape(code)}</code></pre>"

    def block_math(self, body: str) -> str:
        return formula_html(body, display=True)

    def inline_math(self, body: str) -> str:
        return formula_html(body)

    def latex_environment(self, name: str, body: str) -> str:
        return formula_html(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)


class _Renderer(WithoutScripts):
    """What a student wrote loads no picture from anywhere, either."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return f"[image {striptags(text)}: {escape(url)}, not shown]"
