"""The site in two languages, and its prose."""

import re
from string import Formatter

import pytest
from bs4 import BeautifulSoup

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.site import languages, pages
from autograder.site.links import Links, relative
from autograder.site.pages import addresses, section_of
from autograder.site.prose import Prose

# Both languages are complete: every heading, every text of the site, every term, and no unused entries


CHINESE = re.compile(r"[\u4e00-\u9fff]+")
OF_THE_SITE = {"Distributed Training and Hybrid Parallelism", "Weeks", "Reference", "Pages", "Glossary"}
OF_THE_SITE |= {"Sources to read", "Setting up"}
NO_WORDS = {"DDP", "GPipe", "ZB-H1", "zero2_backward", "autograder", "JupyterLab", "Docker", "Ranks"}  # only names


def markdown_of_the_weeks():
    return {
        week: [cell.source for cell in notebooks.page(week).cells if cell.cell_type == "markdown"] for week in WEEKS
    }


def headings_of(text):
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [re.sub(r"[`*]", "", heading) for heading in re.findall(r"^#+ (.+)$", outside, re.MULTILINE)]


WEEKS = notebooks.weeks()
MARKDOWN = markdown_of_the_weeks()
TEXTS = {path: [(ROOT / path).read_text()] for path in pages.documents()} | MARKDOWN


@pytest.mark.parametrize("page", TEXTS)
def test_every_heading_has_its_chinese(page):
    for text in TEXTS[page]:
        for heading in headings_of(re.sub(r"### (BEGIN|END) SOLUTION", "", text)):
            languages.heading_in_chinese(heading)  # the error says which line to add


def test_no_line_is_left_of_a_heading_that_is_gone():
    there = [heading for texts in TEXTS.values() for text in texts for heading in headings_of(text)]
    used = {languages.heading_key(heading)[1] for heading in there} | OF_THE_SITE
    assert set(languages._table("headings")) - used == set()


def test_a_heading_without_chinese_says_which_line_is_missing():
    with pytest.raises(ValueError, match=r'add a line "Week \{\} of ZeRO-3" = "\.\.\."'):
        languages.heading_in_chinese("4 · Week 7 of ZeRO-3")


@pytest.mark.parametrize(
    ("heading", "chinese"),
    [
        ("12 · Recap", "12 · 回顾"),
        ("Hang hunt: exchange", "排查卡死：`exchange`"),
        ("110 instead of 10: another parameter's gradient", "110，应为 10：拿到了别的参数的梯度"),
        ("1 label in 3 is wrong", "每 3 个标签错 1 个"),
    ],
)
def test_places_and_numbers_are_kept(heading, chinese):
    assert languages.heading_in_chinese(heading) == chinese


def folded_questions():
    summary = re.compile(r"<summary>(.*?)</summary>", re.DOTALL)
    found = [one for week in WEEKS for text in MARKDOWN[week] for one in summary.findall(text)]
    return [" ".join(re.sub(r"<[^>]+>|`", "", one).split()) for one in found]


def test_every_folded_question_of_a_week_has_its_chinese():
    assert [question for question in folded_questions() if languages.prompt_in_chinese(question) is None] == []


GOAL = re.compile(r"^- \[ \] (.+?)(?=\n\n|\n- |\Z)", re.DOTALL | re.MULTILINE)
ASKED = re.compile(r"^(After this (?:week|page) you can|\*\*Before you start\*\*.*)$", re.MULTILINE)


@pytest.mark.parametrize("week", WEEKS)
def test_every_goal_of_a_week_has_its_chinese(week):
    goals = GOAL.findall(MARKDOWN[week][0])
    assert len(goals) == (0 if week.startswith("quiz") else 3)
    for goal in goals + ASKED.findall(MARKDOWN[week][0]):
        chinese = languages.prompt_in_chinese(goal.replace("**", ""))
        assert chinese is not None, f'add a line for "{goal}" to prompts.toml'
        assert chinese.startswith("**") or goal not in goals, f"{goal}: the verb is bold in Chinese, too"


def test_no_line_is_left_of_a_prompt_that_is_gone():
    every = " ".join(re.sub(r"[`*]", "", text) for week in WEEKS for text in MARKDOWN[week])
    written = languages.heading_key(" ".join(every.split()))[1]
    used = {languages.heading_key(question)[1] for question in folded_questions()}
    assert {key for key in languages._table("prompts") if key not in used and key not in written} == set()


@pytest.mark.parametrize("table", ["headings", "prompts"])
def test_lines_are_chinese_and_have_all_numbers(table):
    for key, line in languages._table(table).items():
        assert CHINESE.search(line) or key in NO_WORDS, key
        assert len(list(places(line))) == key.count("{}"), key
        assert not re.search(r"[\u4e00-\u9fff][,;:?!]", line), f"{line}: Chinese sentences take ，；：？！"


def places(line):
    return [name for _, name, _, _ in Formatter().parse(line) if name is not None]


def test_the_site_says_everything_in_both_languages():
    for name, said in languages.words().items():
        assert set(said) == {"en", "zh"} and all(said.values()), name
        assert sorted(places(said["en"])) == sorted(places(said["zh"])), name
        assert CHINESE.search(said["zh"]) or name in ("other-language", "label-language"), name


def test_every_chinese_term_of_the_weeks_is_in_the_glossary():
    known = " ".join(term.zh for term in languages.glossary())
    used = {term: week for week in WEEKS for text in MARKDOWN[week] for term in CHINESE.findall(text)}
    assert {term: week for term, week in used.items() if term not in known} == {}


def test_a_term_is_complete_and_stands_once():
    terms = languages.glossary()
    assert len({term.en.lower() for term in terms}) == len(terms)
    assert len({term.zh for term in terms}) == len(terms)
    for term in terms:
        assert term.week in range(17) and CHINESE.search(term.zh) and CHINESE.search(term.means_zh), term.en
        assert term.means.endswith(".") and term.means_zh.endswith("。"), term.en


def test_a_page_holds_both_languages():
    soup = BeautifulSoup(languages.say("week", number=3), "html.parser")
    assert {tag["lang"]: tag.text for tag in soup.find_all("span")} == {"en": "week 3", "zh-CN": "第 3 周"}


# ---- Markdown as HTML: links to the site's own pages, formulas without scripts, headings with GitHub's anchors -------


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
    with pytest.raises(ValueError, match=r"docs/syllabus\.md links to nothing\.md, which does not exist"):
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


def test_a_goal_has_two_languages_with_its_bold_verb(links):
    soup = html("- [ ] **build** GPipe and 1F1B as data,\n  and run them on real ranks;\n- [ ] another\n", links)
    assert [one.strong.text for one in soup.select("li > span")] == ["build", "搭建"]
    assert soup.find(class_="zh").text.startswith("搭建 GPipe") and soup.find_all("li")[1].text == "another"


MARKS = {"`a < b`": "<code>a &lt; b</code>", "*x*": "<em>x</em>", "**x**": "<strong>x</strong>", "x": "x"}


@pytest.mark.parametrize("marked", MARKS)
@pytest.mark.parametrize("around", ["Why {}?", "{}", "Why\n{} and {}?", " {}, <code>y</code> "])
def test_a_folded_question_shows_its_marks_as_html(marked, around, links):
    rendered = Prose(PAGE, links).html(f"<details><summary>{around.replace('{}', marked)}</summary>\n\nno\n</details>")
    assert around.replace("{}", MARKS[marked]).strip() in rendered


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
