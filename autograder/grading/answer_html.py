"""Render a written answer as HTML that loads nothing: formulas become MathML, and images become text.

The converter's input comes from students, so its output is used only if every element and attribute is on the list of
those that display formulas. Any other formula is shown as its TeX source.
"""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mistune.util import striptags
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

MOST_TEX = 1000  # characters per formula
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
    """Return the HTML of a written answer in Markdown; HTML inside it, escaped already or not, is shown as text."""
    written = source.replace("&lt;", "<").replace("&#33;", "!")  # `ingest.restore` escaped these
    try:
        return MarkdownWithMath(renderer=_Renderer(escape=True, allow_harmful_protocols=False)).render(written)
    except Exception:  # nested too deeply, for example
        return f"<pre>{escape(written)}</pre>"


def formula_html(tex: str, *, display: bool = False) -> str:
    """Return a formula as MathML, or as its source if it cannot be converted."""
    try:
        mathml = convert(tex, display="block" if display else "inline") if len(tex) <= MOST_TEX else ""
        if mathml and _shows_a_formula(ElementTree.fromstring(mathml)):
            return mathml
    except Exception:  # the converter can fail in many ways
        pass
    return f'<code class="{"tex-block" if display else "tex"}">{escape(tex)}</code>'


def _shows_a_formula(root: ElementTree.Element) -> bool:
    return all(one.tag in _ELEMENTS and _ATTRIBUTES.issuperset(one.attrib) for one in root.iter())


class WithoutScripts(IPythonRenderer):
    """nbconvert's renderer for pages without scripts: formulas become MathML, and Mermaid diagrams stay source text."""

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre><code>{escape(code)}</code></pre>"

    def block_math(self, body: str) -> str:
        return formula_html(body, display=True)

    def inline_math(self, body: str) -> str:
        return formula_html(body)

    def latex_environment(self, name: str, body: str) -> str:
        return formula_html(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)


class _Renderer(WithoutScripts):
    """Also replaces images in a student's answer with text."""

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return f"[image {striptags(text)}: {escape(url)}, not shown]"
