"""The built site in a real Chromium, opened from its folder: search, languages, light and dark."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def site(page, folder):
    """The first page; the fixture checks at the end that only files were requested and no script failed."""
    asked, failed = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
    page.goto(f"file://{folder}/index.html")
    yield page
    assert asked and {urlsplit(url).scheme for url in asked} <= {"file", "data"} and failed == []


def test_search_finds_a_section_by_keyboard_and_in_chinese(site):
    site.keyboard.press("/")
    site.keyboard.type("ring reduce-scatter")
    expect(site.locator("#found .hit").first).to_be_visible()
    site.keyboard.press("ArrowDown")
    site.keyboard.press("Enter")
    expect(site).to_have_url(re.compile(r"weeks/week01_collectives\.html#"))

    site.get_by_role("button", name="切换到中文").click()
    site.get_by_role("searchbox", name="搜索").fill("全归约")
    first = site.locator("#found .hit").first
    expect(first).to_contain_text("全归约")
    first.click()
    expect(site).to_have_url(re.compile(r"glossary\.html#all-reduce$"))


CHINESE = re.compile("[\u4e00-\u9fff]")


def results(site, field, query):
    site.get_by_role("searchbox", name=field).fill(query)
    expect(site.locator("#found .hit").first).to_be_visible()
    return site.locator("#found .hit").all_inner_texts()


@pytest.mark.parametrize("query", ["rank", "全归约", "DeepSpeed", "all-reduce"])
def test_results_are_in_the_language_of_the_page(site, query):
    english = results(site, "Search", query)
    site.get_by_role("button", name="切换到中文").click()
    chinese = results(site, "搜索", query)
    for hit in english:
        assert "第" not in hit and not re.search("[，。：；]", hit)  # names in brackets are the only Chinese
    for hit in chinese:
        assert CHINESE.search(hit.splitlines()[1]), hit  # the page
        assert all(CHINESE.search(line) for line in hit.splitlines()[2:]), hit  # the excerpt


def test_nothing_found_is_said(site):
    site.get_by_role("searchbox", name="Search").fill("zzzz")
    expect(site.get_by_role("status")).to_have_text("No results.")


def test_the_language_is_kept_from_page_to_page(site):
    expect(site.get_by_role("heading", name="Weeks", exact=True)).to_be_visible()
    site.get_by_role("button", name="切换到中文").click()
    expect(site.get_by_role("heading", name="各周内容")).to_be_visible()
    expect(site.get_by_role("heading", name="Weeks", exact=True)).to_be_hidden()
    site.locator("main").get_by_role("link", name="第 10 周").click()
    expect(site.get_by_role("heading", level=1)).to_contain_text("第 10 周 · 并行规划")
    expect(site).to_have_title(re.compile("^第 10 周"))
    site.get_by_role("button", name="Switch to English").click()
    expect(site.get_by_role("heading", name="Read real code")).to_be_visible()


def test_dark_is_dark_and_is_kept(site):
    def lightness():
        return site.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => +a + +b, 0)"
        )

    before = lightness()
    site.get_by_role("button", name="Light or dark").click()
    assert before == 3 * 255 and lightness() < 100
    site.locator("main").get_by_role("link", name="Glossary").click()
    site.wait_for_load_state()
    assert lightness() < 100


def test_outputs_open_and_figures_are_there(site, folder):
    site.goto(f"file://{folder}/weeks/week10_planning.html")
    output = site.locator("details.folded").first
    output.locator("summary").click()
    expect(output.locator("pre, img").first).to_be_visible()
    site.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    site.evaluate("document.querySelectorAll('img').forEach((one) => { one.loading = 'eager'; })")
    site.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert site.locator("figure img").count() > 3


def test_on_a_phone_the_menu_opens_where_you_are(site, folder):
    site.set_viewport_size({"width": 390, "height": 844})
    site.goto(f"file://{folder}/weeks/week16_capstone_design.html")
    site.mouse.wheel(0, 3000)
    site.get_by_role("button", name="Pages", exact=True).click()
    expect(site.locator("#pages").get_by_role("link", name="Week 16")).to_be_in_viewport()
