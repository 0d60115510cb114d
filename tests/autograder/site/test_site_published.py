"""A site with an address: absolute links for search engines, a sitemap and a social card; pages stay relative."""

import io
import re
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from PIL import Image

from autograder.authoring import notebooks
from autograder.site import published
from autograder.site.pages import Page
from autograder.site.write import _frame, _surroundings, write_site

URL = "https://example.org/course"  # below a path, as on GitHub Pages


def page(address, kind="doc"):
    return Page(address, address, "A page", "A page", "", kind)


def test_an_address_ends_with_a_slash():
    assert published.base_of(URL) == published.base_of(URL + "/") == URL + "/"
    assert published.base_of("") == "" and published.absolute("", "docs/a.html") == ""


@pytest.mark.parametrize(
    "wrong", ["example.org/course", "/course", "https://", "https://example.org/?a", "ftp://a.org"]
)
def test_what_is_no_address_of_a_site_is_refused(wrong):
    with pytest.raises(ValueError, match=r"give one like https://example\.org/course/"):
        published.base_of(wrong)


def test_the_sitemap_lists_every_page_but_source_files():
    found = published.sitemap([page("index.html"), page("docs/a & b.html"), page("files/x.py.html", "file")], URL + "/")
    places = [place.text for place in ElementTree.fromstring(found.encode()).findall(".//{*}loc")]
    assert places == [f"{URL}/", f"{URL}/docs/a%20%26%20b.html"]


def test_the_card_has_the_size_that_is_shown_whole():
    data = published.card()
    assert Image.open(io.BytesIO(data)).size == (1200, 630)
    assert len(data) < 300_000


def head_problems(one, html):
    """Return what is wrong with the addresses on a page of the site at `URL`."""
    found = BeautifulSoup(html, "html.parser")
    meta = {str(tag["property"]): str(tag["content"]) for tag in found.find_all("meta", property=True)}
    canonical = [str(tag["href"]) for tag in found.find_all("link", rel="canonical")]
    address = published.absolute(URL + "/", one.address)
    wrong = [] if canonical == [meta["og:url"]] == [address] else [f"{canonical} is not {address}"]
    wrong += [] if meta["og:image"] == f"{URL}/card.png" and meta["og:title"] == one.name else [str(meta)]
    ours = [str(tag.get("href") or tag.get("src")) for tag in found.find_all(["a", "img", "script"])]
    return wrong + [link for link in ours if link.startswith("/")]


def rendered(one, base):
    return _frame(base).render(page=one, **_surroundings(one, [one]))


def test_a_page_names_its_address_only_if_the_site_has_one():
    one = page("docs/a.html")
    assert head_problems(one, rendered(one, URL + "/")) == []
    assert not re.search("canonical|og:|twitter:", rendered(one, ""))


@pytest.mark.slow
def test_a_published_site_works_below_any_path(tmp_path):
    weeks = {week: notebooks.read_source(week) for week in notebooks.weeks()}
    made = write_site(weeks, tmp_path / "site", url=URL)
    listed = re.findall(r"<loc>(.+?)</loc>", (tmp_path / "site" / "sitemap.xml").read_text())
    assert len(listed) == len(set(listed)) == sum(one.kind != "file" for one in made)
    assert (tmp_path / "site" / published.CARD).is_file()
    for one in made:
        assert head_problems(one, (tmp_path / "site" / one.address).read_text()) == []
