"""The built site: every internal link works, nothing is loaded from elsewhere, and no solution is visible."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.site.shown import solution_lines
from autograder.site.write import write_site
from tests import built_site

pytestmark = pytest.mark.slow
LOADS = {
    "img": "src",
    "script": "src",
    "link": "href",
    "source": "src",
    "iframe": "src",
    "object": "data",
    "embed": "src",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site and the notebooks of its weeks."""
    folder = tmp_path_factory.mktemp("built") / "site"
    return folder, built_site.build(folder)


@pytest.fixture(scope="module")
def pages(built):
    """{path: its page, parsed} of all pages."""
    return {path: BeautifulSoup(path.read_text(), "html.parser") for path in sorted(built[0].rglob("*.html"))}


def targets(page: BeautifulSoup) -> list[str]:
    loaded = [str(tag[name]) for tag_name, name in LOADS.items() for tag in page.find_all(tag_name) if tag.get(name)]
    return loaded + [str(tag["href"]) for tag in page.find_all("a")]


def test_every_link_inside_leads_to_a_page_and_its_heading(pages):
    ids = cache(lambda path: {tag["id"] for tag in pages[path].find_all(id=True)})
    lost = set()
    for path, page in pages.items():
        for target in targets(page):
            parts = urlsplit(target)
            if parts.scheme:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file() or (parts.fragment and unquote(parts.fragment) not in ids(there)):
                lost.add((path.name, target))
    assert lost == set()


def test_no_anchor_stands_twice_on_a_page(pages):
    for path, page in pages.items():
        ids = [tag["id"] for tag in page.find_all(id=True)]
        assert sorted(ids) == sorted(set(ids)), path.name


def test_nothing_is_loaded_from_elsewhere(built, pages):
    for page in pages.values():
        loaded = [tag.get(name, "") for tag_name, name in LOADS.items() for tag in page.find_all(tag_name)]
        assert [one for one in loaded if urlsplit(one).scheme not in ("", "data")] == []
        assert not [tag for tag in page.find_all(True) if any(name.startswith("on") for name in tag.attrs)]
    for path in built[0].glob("site.*"):
        assert not re.search(r"https?:|@import|url\(", path.read_text())


def test_every_page_of_the_course_is_there(built):
    weeks = {path.stem for path in built[0].glob("weeks/*.html")}
    assert weeks == set(notebooks.weeks()) and len(weeks) == len(notebooks.weeks())
    assert {"index.html", "glossary.html", "reading.html", "set-up.html"} <= {path.name for path in built[0].iterdir()}
    docs = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    shown = {path.relative_to(built[0] / "docs").with_suffix("") for path in (built[0] / "docs").rglob("*.html")}
    assert {Path(str(one).replace("README", "index")) for one in docs} == shown


def test_no_line_of_a_solution_is_on_its_week_s_page(built, pages):
    folder, solved = built
    for week, notebook in solved.items():
        hidden = solution_lines(notebook, notebooks.release(week))
        page = pages[folder / "weeks" / f"{week}.html"]
        assert len(hidden) > 2 and hidden & {line.strip() for line in page.get_text().splitlines()} == set(), week


def test_the_executed_weeks_have_their_figures_with_words(built, pages):
    for week in built_site.WITH_OUTPUTS:
        page = pages[built[0] / "weeks" / f"{week}.html"]
        assert page.select("pre.output") and page.select("details.folded")
        assert all(image["alt"] for image in page.find_all("img"))
    assert len(pages[built[0] / "weeks" / "week10_planning.html"].select("figure figcaption")) > 3


def test_no_path_of_this_machine_is_on_a_page(built, pages):
    assert [path.name for path, page in pages.items() if str(ROOT) in page.get_text()] == []


def test_every_heading_is_there_in_both_languages(pages):
    for page in pages.values():
        for heading in page.select("main :is(h1, h2, h3)"):
            assert heading.find("code") or (heading.select(".en") and heading.select(".zh")), heading


def test_the_index_of_the_search_leads_to_sections(built, pages):
    script = (built[0] / "search-index.js").read_text()
    rows = json.loads(script.removeprefix("window.SEARCH_INDEX = ").removesuffix(";\n"))
    assert len(rows) > 400
    for address, page, page_zh, heading, heading_zh, _, _ in rows:
        path, _, anchor = address.partition("#")
        assert pages[built[0] / path].find(id=anchor) and page and page_zh and heading and heading_zh
    [ring] = [row for row in rows if row[0] == "glossary.html#all-reduce"]
    assert ring[3:5] == ["all-reduce", "全归约"] and "sum of all tensors" in ring[5] and "第 0 周" in ring[6]
    assert "第 0 周" not in ring[5] and "sum of all" not in ring[6]


def test_a_folder_that_is_no_site_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="choose an empty folder"):
        write_site({}, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
