"""Write the site: its pages with style and script, and the search index."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbformat import NotebookNode
from shardlab.figures import animation

from autograder.authoring.course import ROOT
from autograder.site import pages, published
from autograder.site.languages import say, words
from autograder.site.links import Links, relative
from autograder.site.pages import Page
from autograder.site.search import index_script

HERE = Path(__file__).parent
STATIC = ("site.css", "site.js")


def write_site(solved: Mapping[str, NotebookNode], folder: Path, root: Path = ROOT, *, url: str = "") -> list[Page]:
    """Write the whole site to a folder, which is emptied first, and return its pages.

    solved: {week: its notebook with solutions, executed or not}. url: where the site will be published, if anywhere.
    Raises ValueError for a heading without a Chinese translation, a broken link, a figure without alt text, or a wrong
    `url`.
    """
    base = published.base_of(url)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "index.html").is_file():
        raise ValueError(f"{folder} contains something that is not a site: choose an empty folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    links = Links(pages.addresses(list(solved), root), folder, root)
    made = [pages.week_page(week, notebook, links) for week, notebook in solved.items()]
    made += [pages.glossary_page(list(solved), links), pages.reading_page(solved, links)]
    made += [pages.document_page(path, links) for path in pages.documents(root)]
    whole = [pages.index_page(made, links), *made, *(pages.file_page(path, links) for path in sorted(links.files))]
    frame = _frame(base)
    for page in whole:
        path = folder / page.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(frame.render(page=page, **_surroundings(page, whole)), encoding="utf-8")
    for name in STATIC:
        shutil.copyfile(HERE / "static" / name, folder / name)
    shutil.copyfile(animation.SCRIPT, folder / animation.SCRIPT.name)
    (folder / "search-index.js").write_text(index_script(whole), encoding="utf-8")
    if base:
        (folder / "sitemap.xml").write_text(published.sitemap(whole, base), encoding="utf-8")
        (folder / published.CARD).write_bytes(published.card())
    return whole


def _frame(base: str):
    environment = Environment(loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, autoescape=True)
    environment.globals |= {
        "say": say,
        "absolute": lambda address: published.absolute(base, address),
        "card": published.CARD,
        "description": published.DESCRIPTION,
        "labels": {name: said for name, said in words().items() if name.startswith("label-")},
    }
    return environment.get_template("page.html.j2")


def _surroundings(page: Page, whole: list[Page]) -> dict:
    """Return the other values that the template needs: neighboring pages, pages by kind, and relative addresses."""
    alike = [one for one in whole if one.kind == page.kind and page.kind == "week"]
    place = alike.index(page) if page in alike else -1
    return {
        "before": alike[place - 1] if place > 0 else None,
        "after": alike[place + 1] if 0 <= place < len(alike) - 1 else None,
        "kinds": {kind: [one for one in whole if one.kind == kind] for kind in ("week", "list", "doc", "lab")},
        "to": lambda address: relative(page.address, address),
        "top": relative(page.address, ".") + "/",
    }
