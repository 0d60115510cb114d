"""A notebook page in JupyterLab: find cells, run one, wait for the kernel."""

import re

import nbformat
from playwright.sync_api import Locator, Page, expect

MINUTES = 60_000  # Playwright counts milliseconds
HAS_RUN = re.compile(r"\[\d+\]:")


def wait_until_idle(page: Page, minutes: float = 4) -> None:
    """Wait until no cell is running or queued, and the status bar says so."""
    expect(page.get_by_text("[*]:", exact=True)).to_have_count(0, timeout=minutes * MINUTES)
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=MINUTES)


def cell(page: Page, notebook: nbformat.NotebookNode, cell_id: str) -> Locator:
    """Find a cell of the visible notebook by its id."""
    return cells(page).nth([cell.id for cell in notebook.cells].index(cell_id))


def cells(page: Page) -> Locator:
    """Return all cells of the visible notebook; other notebooks may be open in the background."""
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell")


def run(page: Page, target: Locator) -> None:
    """Click into a code cell and press Shift+Enter."""
    target.locator(".cm-content").first.click()
    page.keyboard.press("Shift+Enter")


def run_until_it_ran(page: Page, target: Locator, tries: int = 10) -> None:
    """Run a cell of a newly opened page, retrying: JupyterLab says "Idle" before a new kernel accepts anything."""
    for _ in range(tries - 1):
        run(page, target)
        try:
            expect(target.locator(".jp-InputPrompt")).to_have_text(HAS_RUN, timeout=10_000)
            return
        except AssertionError:
            continue
    run(page, target)
    expect(target.locator(".jp-InputPrompt")).to_have_text(HAS_RUN, timeout=MINUTES)


def write(page: Page, target: Locator, source: str) -> None:
    """Replace a cell's source."""
    target.locator(".cm-content").first.click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(source)
