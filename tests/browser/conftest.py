"""A real JupyterLab and a real Chromium; all traffic stays on this machine's loopback."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests import built_site

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
expect.set_options(timeout=30_000)  # milliseconds: two busy cores are slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it with a reason if Chromium is not installed."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no chromium on PATH: apt-get install chromium"))


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; as root it cannot use its own sandbox."""
    flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of a built site."""
    folder = tmp_path_factory.mktemp("built") / "site"
    built_site.build(folder)
    return folder


@pytest.fixture
def page(browser, tmp_path) -> Iterator[Page]:
    """An empty page that can reach only loopback addresses; it leaves a screenshot in the test's folder."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(60_000)
    page.route(lambda url: urlsplit(url).hostname not in ("127.0.0.1", None), lambda route: route.abort())
    yield page
    page.screenshot(path=tmp_path / "at_the_end.png")
    page.close()
