"""Self-study in the browser: the home page, a failed check with its hint, a solution after an attempt.

Each page is opened in a separate workspace, because JupyterLab first shows the documents of the previous one.
"""

import nbformat
import pytest
from lab_server import running_lab
from notebook_page import MINUTES, cell, cells, run, run_until_it_ran, wait_until_idle, write
from playwright.sync_api import Page, expect
from shardlab.home import write_start
from shardlab.study.folder import begin

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

WEEK, EXERCISE = "week00_start", "week00-first-all-reduce"
WEEKS = notebooks.weeks()
BUTTONS = ["Next hint", "Solution", "End idle notebooks", "Refresh"]
WRONG = [
    f"""def total_of(tensor, *, group):
    {line}
    return tensor
"""
    for line in ("pass", "dist.all_reduce(tensor, group=group)", "tensor = 2 * tensor")
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab in a learner's folder, as created by `make lab`."""
    folder, _ = begin(tmp_path_factory.mktemp("learner") / "work", ROOT / "course")
    write_start(folder)
    with running_lab(folder.path, tmp_path_factory.mktemp("home"), settings_of=ROOT / "course" / ".jupyter") as lab:
        yield lab


def test_a_learner_fails_then_opens_a_hint_and_the_solution(lab, page: Page, tmp_path):
    page.goto(lab.at("/lab/workspaces/start/tree/start.ipynb"))
    first = cells(page).nth(1)
    panel = first.locator(".jp-OutputArea")
    expect(panel.get_by_role("link", name="Begin: week 0, exercise 1")).to_be_visible()  # before any cell has run
    expect(panel.get_by_role("link")).to_have_count(len(WEEKS) + 1)
    wait_until_idle(page)
    run_until_it_ran(page, first)
    expect(panel.get_by_role("button")).to_have_text(BUTTONS, timeout=2 * MINUTES)
    expect(panel.get_by_text("In a terminal")).to_be_hidden()
    expect(panel).to_contain_text("this page")
    panel.get_by_role("button", name="Solution").click()
    expect(panel).to_contain_text("The solution opens after 3")
    panel.screenshot(path=tmp_path / "panel.png")

    panel.get_by_role("link", name="Begin: week 0, exercise 1").click()
    expect(page.get_by_role("tab", name=f"{WEEK}.ipynb")).to_be_visible()
    page.goto(lab.at(f"/lab/workspaces/week/tree/{WEEK}/{WEEK}.ipynb"))
    wait_until_idle(page)
    notebook = nbformat.read(lab.folder / WEEK / f"{WEEK}.ipynb", 4)
    run_until_it_ran(page, cell(page, notebook, next(one.id for one in notebook.cells if one.cell_type == "code")))
    check = cell(page, notebook, f"{EXERCISE}-check")
    for answer in WRONG:
        write(page, cell(page, notebook, EXERCISE), answer)
        run(page, cell(page, notebook, EXERCISE))
        run(page, check)
        wait_until_idle(page)
        expect(check.locator(".jp-OutputArea")).to_contain_text("0 of 1 point")
    button = check.get_by_role("button", name="Next hint")
    expect(button).to_be_visible()
    button.click()
    expect(check.locator(".jp-OutputArea")).to_contain_text("Hint 1", ignore_case=True)
    check.screenshot(path=tmp_path / "hint.png")
    page.keyboard.press("ControlOrMeta+S")
    wait_until_idle(page)

    page.goto(lab.at("/lab/workspaces/start/tree/start.ipynb"))
    wait_until_idle(page)
    run_until_it_ran(page, first)
    expect(panel.get_by_role("button", name="Solution")).to_be_visible(timeout=2 * MINUTES)
    panel.get_by_role("button", name="Solution").click()
    expect(panel).to_contain_text("tensor.clone()", timeout=2 * MINUTES)
    expect(panel.get_by_role("link", name="Continue: week 0, exercise 1")).to_be_visible()
    panel.screenshot(path=tmp_path / "solution.png")
