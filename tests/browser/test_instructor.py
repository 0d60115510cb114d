"""What an instructor does in the browser: the formgrader, a written answer, and the students' extensions."""

import json
import sys
from pathlib import Path

import pytest
from lab_server import running_lab
from nbgrader.api import Gradebook
from playwright.sync_api import Page, expect

from autograder import nbgrader_bridge, notebooks
from autograder.course import load_config

sys.path.insert(0, str(Path(__file__).parents[1] / "autograder"))
from tiny_course import TINY_WEEK, hand_in, make_tiny_course


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab in a tiny course with one graded submission whose written answer waits."""
    course = make_tiny_course(tmp_path_factory.mktemp("course"))
    notebooks.build("week01", course)
    written = 'Less than twice. <img src="x" onerror="window.hacked = 1"> <script>window.hacked = 1</script>'
    hand_in(course, "ada", {"week01-double": "def double(x):\n    return 2 * x", "week01-interview": written})
    verdict = course / "autograder" / "verdicts" / "ada" / f"{TINY_WEEK}.json"
    verdict.parent.mkdir(parents=True)
    verdict.write_text(json.dumps({"exercises": {"week01.double": {"points": 3, "max": 3, "text": "Right."}}}))
    nbgrader_bridge.publish("week01", ["ada"], course)
    with running_lab(course, tmp_path_factory.mktemp("home")) as lab:
        yield lab


def interview_grade(course: Path):
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        grade = gradebook.find_grade("week01-interview", TINY_WEEK, TINY_WEEK, "ada")
        comment = gradebook.find_comment("week01-interview", TINY_WEEK, TINY_WEEK, "ada")
        return grade.manual_score, comment.manual_comment


def submission_id(course: Path) -> str:
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        return gradebook.find_submission_notebook(TINY_WEEK, TINY_WEEK, "ada").id


def test_the_formgrader_lists_the_week(lab, page: Page):
    page.goto(lab.at("/formgrader"))
    expect(page.get_by_role("link", name=TINY_WEEK).first).to_be_visible()


def test_a_written_answer_is_graded_by_hand_and_saved(lab, page: Page):
    page.request.get(lab.at("/lab"))  # signs in: the formgrader's own calls need the cookie
    page.goto(lab.at(f"/formgrader/submissions/{submission_id(lab.folder)}/"))
    expect(page.locator("#week01-double-check").last).to_have_attribute("placeholder", "3")
    expect(page.get_by_text("Less than twice.")).to_be_visible()
    assert interview_grade(lab.folder)[0] is None
    assert page.evaluate("window.hacked") is None
    page.locator("#week01-interview").last.fill("1.5")
    page.locator("#week01-interview-comment").fill("Say why.")
    with page.expect_response(lambda response: response.request.method == "PUT" and "/comment/" in response.url):
        page.locator("#week01-interview-comment").blur()
    assert interview_grade(lab.folder) == (1.5, "Say why.")


def test_the_menu_opens_formgrader_and_assignment_list(lab, page: Page):
    page.goto(lab.at("/lab"))
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Formgrader", exact=True).click()
    frame = page.frame_locator("iframe[src*=formgrader]")
    expect(frame.get_by_role("link", name=TINY_WEEK).first).to_be_visible()
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Assignment List").click()
    expect(page.get_by_text("Released assignments")).to_be_visible()


def test_validate_names_the_check_that_fails(lab, page: Page):
    page.goto(lab.at(f"/lab/tree/course/{TINY_WEEK}/{TINY_WEEK}.ipynb"))
    page.get_by_role("button", name="Validate").click()
    expect(page.get_by_text("NotImplementedError").first).to_be_visible()
