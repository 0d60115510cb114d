"""A student's work on week 1 in the browser: run everything, move a slider, answer an exercise, see it pass."""

import nbformat
import pytest
from lab_server import running_lab
from notebook_page import MINUTES, cell, run, wait_until_idle, write
from playwright.sync_api import Page, expect

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT

WEEK = "week01_collectives"
EXERCISE = "week01-exchange"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(WEEK not in notebooks.weeks(), reason=f"solutions/{WEEK} is not written yet"),
]


@pytest.fixture(scope="module")
def released():
    return notebooks.release(WEEK)


@pytest.fixture(scope="module")
def lab(released, tmp_path_factory):
    """JupyterLab in a folder with week 1 as students get it."""
    course = tmp_path_factory.mktemp("course")
    (course / WEEK).mkdir()
    nbformat.write(released, course / WEEK / f"{WEEK}.ipynb")
    with running_lab(course, tmp_path_factory.mktemp("home"), settings_of=ROOT / "course" / ".jupyter") as lab:
        yield lab


def solution() -> str:
    """Return the reference answer as a student would type it."""
    answer = next(cell for cell in notebooks.read_source(WEEK).cells if cell.id == EXERCISE)
    return "\n".join(line for line in answer.source.split("\n") if "SOLUTION" not in line)


def test_a_student_works_through_the_week(lab, released, page: Page, tmp_path):
    page.goto(lab.at(f"/lab/tree/{WEEK}/{WEEK}.ipynb"))
    wait_until_idle(page)
    expect(page.get_by_role("button", name="Validate")).to_be_visible()
    assert page.request.get(lab.at("/formgrader")).status == 404, "students have no formgrader"
    expect(page.get_by_text("Jupyter news")).to_have_count(0)  # no question about news, and nothing is fetched
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    expect(page.get_by_text("[*]:", exact=True).first).to_be_visible()
    wait_until_idle(page)

    errors = page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]')  # tracebacks too
    assert errors.all_inner_texts() == [], "an untouched notebook must run to its end"
    check = cell(page, released, f"{EXERCISE}-check")
    expect(check.locator(".jp-OutputArea")).to_contain_text("0 of 2 points")
    expect(check.locator(".jp-OutputArea")).to_contain_text("Not answered yet")

    stepper = page.locator(".jp-Cell", has=page.get_by_text("Step", exact=True)).first
    before = stepper.locator("img").first.get_attribute("alt")
    stepper.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    expect(stepper.locator("img").first).not_to_have_attribute("alt", before or "")
    stepper.screenshot(path=tmp_path / "stepper.png")

    exercise = cell(page, released, EXERCISE)
    write(page, exercise, solution())
    run(page, exercise)
    run(page, check)
    expect(check.locator(".jp-OutputArea")).to_contain_text("2 of 2 points", timeout=2 * MINUTES)
    check.screenshot(path=tmp_path / "passed.png")
