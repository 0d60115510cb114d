"""Animations in the browser: stepped by keyboard and buttons on the site and in JupyterLab, with each step in words."""

import nbformat
import pytest
from lab_server import running_lab
from notebook_page import cells, run_until_it_ran, wait_until_idle
from playwright.sync_api import Page, expect
from shardlab import figures

from autograder.authoring import notebooks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RING, GATHERS, ROWS = (
    ("week14_long_context", "Keys and values travel around the ring"),
    ("week04_fsdp", "FSDP gathers, uses and frees each unit"),
    ("week12_expert_parallel", "Rows travel to experts and back"),
)
CELL = 'from shardlab import figures\n\nfigures.animate("A ring", figures.ring_frames([0, 1, 2]))'
SENTENCES = [one.sentence for one in figures.ring_frames(figures.chunk_owners("zig-zag", 4))]


def is_shown(root, step, sentences):
    """Wait until exactly this picture is visible and its sentence is announced."""
    expect(root.locator(".words")).to_have_text(sentences[step])
    expect(root.locator(".number")).to_have_text(f"{step + 1} of {len(sentences)}")
    visible = [picture.is_visible() for picture in root.locator(".picture").all()]
    assert visible == [number == step for number in range(len(sentences))]


def steps_by_keyboard(page, root, sentences):
    """Step with arrows, space, Home and End, and stop at both ends."""
    last = len(sentences) - 1
    root.focus()
    is_shown(root, 0, sentences)
    for key, step in (
        ("ArrowRight", 1),
        (" ", 2),
        ("ArrowLeft", 1),
        ("End", last),
        (" ", last),
        ("Home", 0),
        ("ArrowLeft", 0),
    ):
        page.keyboard.press(key)
        is_shown(root, step, sentences)


def opened(page, folder, animation):
    """Open the page of an animation on the site, and unfold the animation if it shows the course's own answer."""
    week, name = animation
    page.goto(f"file://{folder}/weeks/{week}.html")
    for folded in page.locator("details.folded:has(.steps) > summary").all():
        folded.click()
    return page.get_by_role("group", name=name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("animation", [RING, GATHERS, ROWS], ids=["ring", "gathers", "rows"])
def test_an_animation_on_the_site_is_stepped_by_keyboard(page: Page, folder, animation, scheme, tmp_path):
    failed = []
    page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
    page.emulate_media(color_scheme=scheme)
    root = opened(page, folder, animation)
    sentences = root.locator("li").all_text_contents()  # folded, so not found by role
    assert len(sentences) >= 4 and (animation != RING or sentences == SENTENCES)
    steps_by_keyboard(page, root, sentences)
    root.screenshot(path=tmp_path / f"{scheme}.png")
    assert failed == []


def test_buttons_step_and_space_on_a_button_steps_once(page: Page, folder):
    root = opened(page, folder, RING)
    root.get_by_role("button", name="Next").click()
    is_shown(root, 1, SENTENCES)
    page.keyboard.press(" ")
    is_shown(root, 2, SENTENCES)
    root.get_by_role("button", name="Back").click()
    is_shown(root, 1, SENTENCES)
    root.get_by_text("All steps in words").click()
    expect(root.get_by_role("listitem")).to_have_text(SENTENCES)


def test_without_scripts_all_sentences_can_be_read(browser, folder):
    page = browser.new_context(java_script_enabled=False).new_page()
    root = opened(page, folder, RING)
    expect(root.get_by_role("listitem").first).to_be_visible()
    expect(root.locator(".picture").first).to_be_visible()
    expect(root.get_by_role("button")).to_have_count(0)
    page.context.close()


def test_an_animation_in_jupyterlab_is_stepped_by_keyboard(page: Page, tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL), nbformat.v4.new_code_cell("1")])
    notebook.metadata = nbformat.from_dict(notebooks.NOTEBOOK_METADATA)
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(notebook, work / "ring.ipynb")
    with running_lab(work, tmp_path / "home") as lab:
        page.goto(lab.at("/lab/tree/ring.ipynb"))
        wait_until_idle(page)
        run_until_it_ran(page, cells(page).first)
        root = page.get_by_role("group", name="A ring")
        steps_by_keyboard(page, root, [one.sentence for one in figures.ring_frames([0, 1, 2])])
        root.screenshot(path=tmp_path / "lab.png")
