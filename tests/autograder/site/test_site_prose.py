"""Markdown as HTML: links to the site's own pages, formulas without scripts, headings with GitHub's anchors."""

import pytest
from bs4 import BeautifulSoup

from autograder.site.links import Links, relative
from autograder.site.pages import addresses, section_of
from autograder.site.prose import Prose

PAGE = "docs/syllabus.md"


@pytest.fixture
def links(tmp_path):
    return Links(addresses(["week01_collectives"]), tmp_path)


def html(markdown, links, page=PAGE):
    return BeautifulSoup(Prose(page, links).html(markdown), "html.parser")


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("bug-museum.md", "bug-museum.html"),
        ("one-screen/README.md#one-process", "one-screen/index.html#one-process"),
        ("../labs/README.md", "../labs/index.html"),
        ("../README.md#study", "../set-up.html#study"),
        ("../course/week01_collectives/week01_collectives.ipynb", "../weeks/week01_collectives.html"),
        ("../labs/shardlab/collectives.py", "../files/labs/shardlab/collectives.py.html"),
        ("#weeks", "#weeks"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
def test_a_link_leads_to_the_site_s_own_page(link, address, links):
    assert html(f"[here]({link})", links).a["href"] == address


def test_a_linked_source_file_becomes_a_page(links):
    html("[here](../labs/shardlab/collectives.py)", links)
    assert links.files == {"labs/shardlab/collectives.py": "files/labs/shardlab/collectives.py.html"}


def test_what_the_site_has_no_page_of_is_plain_text(links):
    soup = html("[traces](../benchmarks/results/traces_h200)", links)
    assert soup.a is None and soup.text.strip() == "traces"


def test_a_link_that_another_page_wrote_starts_from_there(links):
    prose = Prose("reading", links, written_in="course/week01_collectives/week01_collectives.ipynb")
    assert 'href="labs/index.html"' in prose.html("[labs](../../labs/README.md)")


def test_a_link_to_nothing_is_refused(links):
    with pytest.raises(ValueError, match=r"docs/syllabus\.md links to nothing\.md, which is not there"):
        html("[x](nothing.md)", links)


def test_a_picture_is_copied_under_the_name_of_its_content(links):
    image = html("![a rank waits](images/profile-1f1b.png)", links).img
    assert image["alt"] == "a rank waits" and image["src"].startswith("../pictures/")
    [kept] = links.folder.rglob("*.png")
    assert kept.read_bytes() == (links.root / "docs/images/profile-1f1b.png").read_bytes()


def test_formulas_are_mathml(links):
    soup = html("A rank sends $\\frac{2(N-1)}{N} S$ bytes.\n\n$$\\sum_i x_i$$\n", links)
    inline, block = soup.find_all("math")
    assert inline.find("mfrac") and block["display"] == "block" and "$" not in soup.text


def test_a_heading_has_two_languages_and_an_anchor_of_its_own(links):
    soup = html("## 13 · Recap\n\n### Hang hunt: `exchange`\n\n## 14 · Recap\n\n## 14 · Recap\n", links)
    assert [tag["id"] for tag in soup.find_all(["h2", "h3"])] == [
        "13--recap", "hang-hunt-exchange", "14--recap", "14--recap-1"
    ]  # fmt: skip
    assert soup.h3.find(class_="en").code.text == soup.h3.find(class_="zh").code.text == "exchange"


def test_a_prompt_has_two_languages_with_its_numbers(links):
    soup = html(
        "Write it. *About 7 lines.*\n\n<details><summary>Hint 2: the index</summary>\n\nno\n</details>\n", links
    )
    assert [one.text for one in soup.select(".zh")] == ["约 7 行。", "提示 2：下标"]
    assert [one.text for one in soup.select(".en")] == ["About 7 lines.", "Hint 2: the index"]


def test_a_folded_answer_keeps_its_markdown(links):
    soup = html("<details><summary>Why?</summary>\n\nBecause *rank 0* waits.\n</details>\n", links)
    assert soup.details.summary.text == "Why?" and soup.details.em.text == "rank 0"


def test_a_section_ends_with_its_cell_or_the_next_heading():
    cells = ["# One\n\n## 2 · Recap\n\na\n\nb\n\n## 3 · Going further\n\n- c\n", "d"]
    assert section_of(cells, "Recap") == "## Recap\n\na\n\nb\n\n"
    assert section_of(cells, "Going further") == "## Going further\n\n- c\n"
    assert section_of(cells, "Read real code") == ""


def test_addresses_are_relative():
    assert relative("docs/one-screen/ddp.html", "weeks/a.html") == "../../weeks/a.html"
    assert relative("index.html", "docs/a.html") == "docs/a.html"
