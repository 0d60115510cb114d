"""An instructor in the browser: use the formgrader, grade a written answer, use the students' extensions."""

import io
import re
import shutil
from pathlib import Path

import pytest
from lab_server import running_lab
from nbgrader.api import Gradebook
from PIL import Image
from playwright.sync_api import Page, expect

from autograder import demo, weeks
from autograder.authoring import notebooks
from autograder.authoring.course import ROOT, load_config
from autograder.grading import grade, publishing, verdict_files
from autograder.judging import exhibits
from autograder.matrices import kill_matrix, known
from tests.autograder.tiny_course import TINY_PLOT, TINY_SOURCE, TINY_WEEK, hand_in, make_tiny_course, write_verdict

pytestmark = pytest.mark.slow
WRONG = {
    "week01.exchange": "both_send_first",
    "week01.ring-all-reduce": "two_ranks_only",
    "week01.ring-reduce-scatter": "sends_whole_tensors",
}
HOSTILE = """
def naive_all_reduce_bill(num_ranks, num_bytes):
    raise ValueError('<script>window.hacked = 1</script><img src="x" onerror="window.hacked = 1">')
"""
MOST = 2 + sum(check.points for check in weeks.of_week(demo.WEEK) if not check.optional)  # with a written answer
SCORES = {
    "honest": demo.POINTS,
    "wrong": demo.POINTS - 11,
    "hostile": demo.POINTS - 1,
}  # a later exercise also calls the wrong ring
SENTENCES = {"wrong": "Deadlock: 2 of 2 ranks wait", "hostile": "onerror"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab in a tiny course with a graded submission whose written answer and figure still need a grade."""
    course = make_tiny_course(tmp_path_factory.mktemp("course"), TINY_SOURCE + TINY_PLOT)
    notebooks.build("week01", course)
    written = 'Less than twice. <img src="x" onerror="window.hacked = 1"> <script>window.hacked = 1</script>'
    plot = "plt.show()"
    double = "def double(x):\n    return 2 * x"
    hand_in(course, "ada", {"week01-double": double, "week01-interview": written, "week01-plot": plot})
    write_verdict(course, "ada", {"week01.double": {"points": 3, "max": 3, "text": "Right."}})
    verdict = verdict_files.verdict_file("ada", TINY_WEEK, course)
    shown = exhibits.Exhibit("<b>five</b> points", [_picture()], source=exhibits.source_hash(plot))
    exhibits.write({"week01.plot": shown}, exhibits.file_of(verdict))
    publishing.publish("week01", ["ada"], course)
    with running_lab(course, tmp_path_factory.mktemp("home")) as lab:
        yield lab


def _picture() -> bytes:
    """Return a green PNG."""
    buffer = io.BytesIO()
    Image.new("RGB", (120, 80), (0, 120, 80)).save(buffer, format="PNG")
    return buffer.getvalue()


def interview_grade(course: Path):
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        grade = gradebook.find_grade("week01-interview", TINY_WEEK, TINY_WEEK, "ada")
        comment = gradebook.find_comment("week01-interview", TINY_WEEK, TINY_WEEK, "ada")
        return grade.manual_score, comment.manual_comment


def submission_id(course: Path, student: str = "ada", week: str = TINY_WEEK) -> str:
    with Gradebook(load_config(course).CourseDirectory.db_url) as gradebook:
        return str(gradebook.find_submission_notebook(week, week, student).id)


def test_the_formgrader_lists_the_week(lab, page: Page):
    page.goto(lab.at("/formgrader"))
    expect(page.get_by_role("link", name=TINY_WEEK).first).to_be_visible()


def test_a_written_answer_is_graded_by_hand_and_saved(lab, page: Page):
    page.request.get(lab.at("/lab"))  # signs in: the formgrader's requests need the cookie
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


def test_a_code_cell_is_graded_with_what_it_showed(lab, page: Page, tmp_path):
    page.request.get(lab.at("/lab"))
    page.goto(lab.at(f"/formgrader/submissions/{submission_id(lab.folder)}/"))
    expect(page.get_by_text("<b>five</b> points")).to_be_visible()
    picture = page.get_by_alt_text("Picture 1 that the cell shows")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [120, 80]
    page.locator("#week01-plot").last.fill("2")
    picture.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "figure.png")


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


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """JupyterLab in a course with week 1 of three students, graded and published: honest, wrong, hostile."""
    course = tmp_path_factory.mktemp("graded")
    shutil.copytree(ROOT / "solutions" / demo.WEEK, course / "solutions" / demo.WEEK)
    shutil.copytree(ROOT / "autograder" / "templates", course / "autograder" / "templates")
    shutil.copy(ROOT / "nbgrader_config.py", course)
    submitted = course / "autograder" / "submitted"
    demo.write_submission(submitted, "honest", {})
    demo.write_submission(submitted, "wrong", {exercise: _known(exercise, name) for exercise, name in WRONG.items()})
    demo.write_submission(submitted, "hostile", {"week01.naive-bill": HOSTILE})
    grade.grade(demo.WEEK, submitted, root=course, seed=1)
    publishing.publish(demo.WEEK, list(SCORES), course)
    with running_lab(course, tmp_path_factory.mktemp("home")) as lab:
        yield lab


def _known(exercise: str, name: str) -> str:
    return kill_matrix.PREAMBLE + known.find(exercise, name).source


@pytest.mark.isolated(3)
def test_the_table_of_submissions_shows_every_score(graded, page: Page, tmp_path):
    page.request.get(graded.at("/lab"))
    page.goto(graded.at(f"/formgrader/manage_submissions/{demo.WEEK}"))
    for student, points in SCORES.items():
        expect(page.get_by_role("row", name=student)).to_contain_text(f"{points:g} / {MOST:g}")
    page.screenshot(path=tmp_path / "submissions.png")
    page.goto(graded.at(f"/formgrader/gradebook/{demo.WEEK}/{demo.WEEK}"))
    expect(page.locator("tbody tr").filter(has_text=f" / {MOST:g}")).to_have_count(3)
    page.screenshot(path=tmp_path / "gradebook.png")


@pytest.mark.isolated(3)
@pytest.mark.parametrize("student", ["wrong", "hostile"])
def test_a_submission_opens_with_its_sentences(graded, page: Page, tmp_path, student):
    page.request.get(graded.at("/lab"))
    page.goto(graded.at(f"/formgrader/submissions/{submission_id(graded.folder, student, demo.WEEK)}/"))
    expect(page.get_by_text(SENTENCES[student]).first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    page.screenshot(path=tmp_path / "submission.png")


@pytest.mark.isolated(3)
def test_the_feedback_page_says_what_is_wrong_where_and_what_helps(graded, page: Page, tmp_path):
    page.goto((graded.folder / "autograder" / "feedback" / "wrong" / demo.WEEK / f"{demo.WEEK}.html").as_uri())
    expect(page.locator(".score")).to_contain_text(re.compile(rf"{demo.POINTS - 11:g} of\s+{MOST:g} points"))
    exchange = page.locator("#feedback tr", has=page.get_by_role("link", name="exchange", exact=True))
    expect(exchange).to_contain_text("0 / 2")
    expect(exchange).to_contain_text("Deadlock: 2 of 2 ranks wait")
    expect(exchange.locator(".hint")).to_contain_text("a matching receive")
    all_reduce = page.locator("#feedback tr", has=page.get_by_role("link", name="ring-all-reduce", exact=True))
    expect(all_reduce).to_contain_text("On rank 0, 2 of 7 numbers of the sum are wrong")
    page.screenshot(path=tmp_path / "feedback.png")
    exchange.get_by_role("link").click()
    expect(page.locator(".detail").first).to_contain_text("rank 0 waits in send to rank 1")
    page.screenshot(path=tmp_path / "answer.png")


@pytest.mark.isolated(3)
def test_the_feedback_page_of_an_attacker_is_harmless(graded, page: Page):
    page.goto((graded.folder / "autograder" / "feedback" / "hostile" / demo.WEEK / f"{demo.WEEK}.html").as_uri())
    expect(page.locator(".score")).to_contain_text(re.compile(rf"{demo.POINTS - 1:g} of\s+{MOST:g} points"))
    expect(page.locator("#feedback")).to_contain_text("onerror")
    assert page.evaluate("window.hacked") is None
