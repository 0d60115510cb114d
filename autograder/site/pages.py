"""The pages of the site: which pages exist, and what each contains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from nbconvert.filters.highlight import Highlight2HTML
from nbformat import NotebookNode

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.site.languages import both, glossary, heading_in_chinese, inline_marks, say
from autograder.site.links import Links
from autograder.site.outputs import outputs_html, widget_states
from autograder.site.prose import Prose
from autograder.site.shown import Shown, shown

LOOKED_UP = ("docs/syllabus.md", "docs/bug-museum.md", "docs/milestones.md")  # listed with the glossary and the sources
DECISIONS = "docs/decisions/"  # only its README is in the navigation
READING = ("Read real code", "Going further")  # the sections of a week that link to other people's code and papers


@dataclass(frozen=True)
class Page:
    """A page: `source` is its path in the repository, `title` and `body` are HTML, `name` is the title as text."""

    address: str
    source: str
    name: str
    title: str
    body: str
    kind: str


def addresses(weeks: list[str], root: Path = ROOT) -> dict[str, str]:
    """Return {path in the repository: address} of all pages except source files."""
    found = {"index": "index.html", "glossary": "glossary.html", "reading": "reading.html"}
    for week in weeks:
        for path in (f"course/{week}/{week}.ipynb", f"solutions/{week}/{week}.py"):
            found[path] = f"weeks/{week}.html"
    for path in documents(root):
        found[path] = re.sub(r"(^|/)README\.html$", r"\1index.html", path.removesuffix(".md") + ".html")
    return found | {"README.md": "set-up.html", "CONTRIBUTING.md": "contributing.html"}


def documents(root: Path = ROOT) -> list[str]:
    """Return the paths of the Markdown pages: setup, docs/, and the READMEs of the labs."""
    found = [*sorted((root / "docs").rglob("*.md")), *sorted((root / "labs").rglob("README.md"))]
    return ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(root)) for path in found)]


# ---- weeks ----------------------------------------------------------------------------------------------------------


def week_page(week: str, solved: NotebookNode, links: Links) -> Page:
    """Render the page of one week from its notebook with solutions, executed or not.

    Raises ValueError for a heading without a Chinese translation, or a figure without alt text.
    """
    source = f"course/{week}/{week}.ipynb"
    prose = Prose(source, links)
    states = widget_states(solved)
    cells = shown(solved, notebooks.release(week))
    parts = [
        _cell(cell, prose, lambda one: outputs_html(one.outputs, states, _keeper(links, source))) for cell in cells
    ]
    return _page(source, first_heading(cells[0].source), "".join(parts), links, "week")


def _cell(cell: Shown, prose: Prose, outputs: Callable[[Shown], str]) -> str:
    if cell.kind == "text":
        return f'<section class="text">{prose.html(cell.source)}</section>\n'
    about = f' <code class="name">{escape(cell.exercise)}</code>' if cell.exercise else ""
    label = "" if cell.kind == "code" else f'<p class="label">{say(cell.kind)}{about}</p>'
    if cell.kind == "written":
        return f'<section class="cell written">{label}{prose.html(cell.source)}</section>\n'
    made = outputs(cell) if cell.outputs else ""
    if made and cell.folded:
        made = f'<details class="folded"><summary>{say("folded-" + cell.folded)}</summary>{made}</details>'
    return f'<section class="cell {cell.kind}">{label}{code_html(cell.source)}{made}</section>\n'


def code_html(source: str, language: str = "ipython3") -> str:
    """Return highlighted code that can be scrolled with the keyboard."""
    html = Highlight2HTML(pygments_lexer=language)(source)
    return html.replace("<pre>", '<pre tabindex="0">', 1)


# ---- Markdown pages and source files -------------------------------------------------------------------------------


def document_page(path: str, links: Links) -> Page:
    """Render a page of docs/ or labs/.

    Raises ValueError for a heading without a Chinese translation, or a broken link.
    """
    text = (links.root / path).read_text(encoding="utf-8")
    name = "Setting up" if path == "README.md" else first_heading(text)
    return _page(path, name, Prose(path, links).html(text), links, _kind(path))


def _kind(path: str) -> str:
    """Return where the navigation lists a Markdown page; a "decision" is only linked from the decisions' README."""
    if path.startswith(DECISIONS) and not path.endswith("/README.md"):
        return "decision"
    return "lab" if path.startswith("labs/") else "list" if path in LOOKED_UP else "doc"


def file_page(path: str, links: Links) -> Page:
    """Render a source file that a page links to."""
    text = (links.root / path).read_text(encoding="utf-8")
    language = {".py": "python", ".toml": "toml", ".md": "markdown", ".yml": "yaml"}.get(Path(path).suffix, "text")
    title = f"<code>{escape(path)}</code>"
    body = f"<h1>{title}</h1>\n{code_html(text, language)}"
    return Page(links.files[path], path, path, title, body, "file")


# ---- glossary and reading -------------------------------------------------------------------------------------------


def glossary_page(weeks: list[str], links: Links) -> Page:
    """Render all terms in both languages, each with the week that first uses it."""
    number = {int(week[4:6]): week for week in weeks if week.startswith("week")}
    rows = []
    for term in glossary():
        address = links.address("glossary", f"course/{number[term.week]}/{number[term.week]}.ipynb")
        means = both(inline_marks(term.means), inline_marks(term.means_zh))
        rows.append(
            f'<div class="term" id="{Prose("glossary", links).anchor(term.en)}"><dt><b lang="en">{escape(term.en)}</b> '
            f'<b lang="zh-CN">{escape(term.zh)}</b></dt>'
            f'<dd>{means} <a href="{address}">{say("week", number=term.week)}</a></dd></div>\n'
        )
    name = "Glossary"
    head = f"<h1>{_title(name)}</h1><p>{say('glossary-is')}</p>"
    return Page(
        "glossary.html", "glossary", name, _title(name), f'{head}<dl class="terms">{"".join(rows)}</dl>', "list"
    )


def reading_page(solved: Mapping[str, NotebookNode], links: Links) -> Page:
    """Render the code and papers that the weeks recommend, week by week, in their own words."""
    parts = [f'<h1 id="sources">{_title("Sources to read")}</h1><p>{say("reading-is")}</p>']
    anchors = Counter[str]()
    for week in solved:
        source = f"course/{week}/{week}.ipynb"
        cells = [cell.source for cell in notebooks.release(week).cells if cell.cell_type == "markdown"]
        found = [section for wanted in READING if (section := section_of(cells, wanted))]
        if found:
            title = _title(first_heading(cells[0]))
            parts.append(f'<h2 id="{week}"><a href="{links.address("reading", source)}">{title}</a></h2>')
            prose = Prose("reading", links, below=1, written_in=source, anchors=anchors)
            parts += [prose.html(section) for section in found]
    return Page("reading.html", "reading", "Sources to read", _title("Sources to read"), "\n".join(parts), "list")


def section_of(cells: Sequence[str], wanted: str) -> str:
    """Return a section of Markdown cells, without its heading, up to the next heading or the end of its cell; or ""."""
    for text in cells:
        section = rf"^##+ (?:\d+ · )?{re.escape(wanted)}\n(.*?)(?=^#|\Z)"
        if match := re.search(section, text, re.DOTALL | re.MULTILINE):
            return f"## {wanted}\n{match[1]}"
    return ""


# ---- the first page -------------------------------------------------------------------------------------------------


def index_page(pages: list[Page], links: Links) -> Page:
    """Render the first page: a description of the site, the weeks, and links to everything else."""
    name = "Distributed Training and Hybrid Parallelism"
    parts = [f"<h1>{_title(name)}</h1>", f'<p class="lead">{say("site-is")}</p>']
    for kind, heading in (("week", "Weeks"), ("list", "Reference"), ("doc", "Pages"), ("lab", "Labs")):
        entries = "".join(f'<li><a href="{page.address}">{page.title}</a></li>' for page in pages if page.kind == kind)
        parts.append(f'<h2 id="{kind}">{_title(heading)}</h2><ul class="entries {kind}">{entries}</ul>')
    shows = "".join(f"<li>{say(f'shows-{one}')}</li>" for one in ("exercise", "folded", "check", "widget"))
    parts.insert(2, f'<details class="what"><summary>{say("what-it-shows")}</summary><ul>{shows}</ul></details>')
    return Page("index.html", "index", name, _title(name), "\n".join(parts), "index")


def first_heading(markdown: str) -> str:
    """Return the title of a Markdown page, without code marks.

    Raises ValueError if it has none.
    """
    match = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    if match is None:
        raise ValueError(f"a page does not start with a title: {markdown[:60]!r}")
    return match[1].replace("`", "")


def _page(source: str, name: str, body: str, links: Links, kind: str) -> Page:
    return Page(links.addresses[source], source, name, _title(name), body, kind)


def _title(name: str) -> str:
    return both(escape(name, quote=False), inline_marks(heading_in_chinese(name)))


def _keeper(links: Links, source: str) -> Callable[[bytes], str]:
    return lambda data: links.keep(source, data)
