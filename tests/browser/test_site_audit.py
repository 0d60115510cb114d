"""Pages of the site on a phone: no sideways scroll, contrast as WCAG AA asks for, pictures with words."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
AUDIT = Path(__file__).with_name("page_audit.js").read_text(encoding="utf-8")
PHONE = 390  # pixels
PAGES = [
    "index",
    "weeks/week05_tensor_parallel",
    "weeks/week10_planning",  # with outputs
    "weeks/week12_expert_parallel",
    "weeks/week14_long_context",
    "reading",
]
BAD = {
    "wide": '<p style="width: 391px">wide</p>',
    "weak": '<p style="background: #eee"><span style="color: #888">weak</span></p>',
    "faded": '<p style="opacity: 0.4">weak, because faded</p>',
    "folded": '<details><summary>x</summary><p style="color: #999; background: #fff">weak</p></details>',
    "wordless": '<img src="data:," alt=" ">',
    "backticks": "<p>a `name`</p>",
    "cut": '<a style="display: block; width: 50px; overflow: hidden; white-space: nowrap">a long name</a>',
}


def problems(browser: Browser, address: str, *, width: int = PHONE, **settings) -> dict:
    """Return what is wrong with a page by kind, with all its folded parts opened."""
    page = browser.new_page(viewport={"width": width, "height": 844}, **settings)
    page.goto(address)
    found = page.evaluate(AUDIT)
    page.close()
    return {kind: wrong for kind, wrong in found.items() if wrong}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh-CN"])
@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_readable_on_a_phone(browser, folder, address, language, scheme):
    assert problems(browser, f"file://{folder}/{address}.html", locale=language, color_scheme=scheme) == {}


@pytest.mark.parametrize("width", [320, 900, 1100, 1400])
def test_no_name_of_a_page_is_cut(browser, folder, width):
    for language in ("en", "zh-CN"):
        assert problems(browser, f"file://{folder}/index.html", width=width, locale=language) == {}


@pytest.mark.parametrize("kind", BAD)
def test_the_audit_sees(browser, kind, tmp_path):
    (tmp_path / "bad.html").write_text(f"<!doctype html><meta name=viewport content='width=device-width'>{BAD[kind]}")
    found = problems(browser, f"file://{tmp_path}/bad.html")
    assert list(found) == [{"faded": "weak", "folded": "weak"}.get(kind, kind)]
