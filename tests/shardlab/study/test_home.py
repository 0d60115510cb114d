"""The home page: what it says about a folder, its HTML, and the file that is there before any cell runs."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient
from shardlab.home import shown, start
from shardlab.home.facts import Card, Home, Module, Next, home_of
from shardlab.home.memory import OpenNotebook
from shardlab.study import page, records
from shardlab.study.folder import begin
from small_course import LATER, WEEK

COURSE = Path(__file__).parents[3] / "course"
TAGS = {"div", "span", "b", "a", "p", "h2", "code", "table", "tr", "td"}
ATTRIBUTES = {"style", "href", "class", "aria-hidden"}
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(1)'>\"></a></div>`x`"


class Read(HTMLParser):
    """The tags, attributes, links and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.links, self.text, self.level = set(), set(), [], "", 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]
        self.level += 1

    def handle_endtag(self, tag):
        self.level -= 1

    def handle_data(self, data):
        self.text += data


def check(folder, exercise, points=0.0, **facts):
    assert not records.note("check", path=folder.path, exercise=exercise, points=points, answer="a", **facts)


# What it says about a folder


def test_a_new_folder_begins_with_the_first_page(folder):
    home = home_of(folder)
    assert [(card.label, card.done, card.exercises) for card in home.cards] == [("week 1", 0, 3), ("week 2", 0, 2)]
    assert home.next is not None and not home.next.was_begun
    assert (home.next.label, home.next.href) == ("week 1, exercise 1", f"{WEEK}/{WEEK}.ipynb")


def test_a_link_leads_to_the_text_above_the_next_exercise(folder):
    check(folder, "week02.four")
    found = home_of(folder).next
    assert found is not None and found.was_begun and found.label == "week 2, exercise 1"
    address = urlsplit(found.href)
    cells = page.read(folder.path / address.path).cells
    [place] = [number for number, cell in enumerate(cells) if cell.id == address.fragment.removeprefix("cell-id=")]
    assert cells[place].cell_type == "markdown" and cells[place].source == "# Week 2"


def test_right_checks_and_written_answers_are_done(folder, write_answer):
    check(folder, "week01.one", points=2)
    check(folder, "week01.two", points=0)
    write_answer("week02.interview", "Because.")
    first, second = home_of(folder).cards
    assert (first.done, first.was_begun, second.done, second.was_begun) == (1, True, 1, False)
    folder.notebook(LATER).write_text("{")
    assert home_of(folder).cards[1].done == 0


def test_when_every_check_passes_there_is_no_next(folder):
    for one in folder.exercises().values():
        check(folder, one.name, points=one.points)
    home = home_of(folder)
    assert home.next is None and "Every check of the core passes" in Read(shown.html(home)).text


def test_broken_records_and_modules_are_notes(folder):
    folder.records.write_text("torn\n")
    (folder.path / ".study" / "mine.json").write_text("[]")
    home = home_of(folder)
    assert not home.modules and any("mine.json" in note for note in home.notes)
    assert any("unreadable" in note for note in home.notes)


def test_the_courses_own_pages_have_topics_times_and_links(tmp_path):
    folder, _ = begin(tmp_path / "work", COURSE)
    home = home_of(folder)
    assert len(home.cards) == len(folder.weeks()) and all(card.topic and card.takes for card in home.cards)
    assert all(card.question for card in home.cards if card.label.startswith("week") and card.label != "week 0")
    core = [one for one in folder.exercises().values() if not one.is_optional]
    assert sum(card.exercises for card in home.cards) == len(core)
    links = Read(shown.html(home)).links
    assert {f"{week}/{week}.ipynb" for week in folder.weeks()} <= {*links}
    assert all((folder.path / unquote(urlsplit(link).path)).is_file() for link in links)


# Its HTML

texts = st.text(max_size=40) | st.just(HOSTILE)
cards = st.builds(
    Card,
    **dict.fromkeys(("label", "topic", "question", "takes"), texts),
    **dict.fromkeys(("done", "exercises"), st.integers(0, 9)),
    **dict.fromkeys(("points", "most", "seconds"), st.floats(0, 1e4)),
    href=texts.map(lambda text: f"week/{text}"),
    was_begun=st.booleans(),
)
nexts = st.builds(Next, label=texts, name=texts, href=texts, was_begun=st.booleans(), more=texts)
modules = st.builds(Module, name=texts, href=texts, own=st.integers(0, 9), functions=st.integers(0, 9))
homes = st.builds(Home, st.lists(cards, max_size=3), nexts | st.none(), st.lists(modules, max_size=3), st.lists(texts))
notebooks = st.builds(OpenNotebook, name=texts, num_bytes=st.integers(0, 2**40), state=texts)


@given(homes, st.lists(notebooks, max_size=3), texts)
def test_every_text_stays_text(home, open_notebooks, said):
    html = shown.html(home) + shown.commands(home.next) + shown.memory(open_notebooks, said)
    read = Read(html)
    assert read.tags <= TAGS and read.attributes <= ATTRIBUTES and read.level == 0
    plain = [card.topic for card in home.cards] + [one.name for one in (*home.modules, *open_notebooks)]
    assert all("".join(text.split()) in "".join(read.text.split()) for text in plain if text.isprintable())


def test_colors_follow_the_theme_and_progress_is_also_a_number(folder):
    check(folder, "week01.one", points=2)
    html = shown.html(home_of(folder))
    assert "var(--jp-ui-font-color1, inherit)" in html and "<script" not in html and "<style" not in html
    assert "width: 33%" in html and "1 of 3 exercises · 2 of" in Read(html).text


# The file


def home_cell(folder):
    notebook = page.read(folder.path / "start.ipynb")
    [cell] = [cell for cell in notebook.cells if cell.id == start.CELL]
    return notebook, cell


def test_the_file_has_its_content_before_it_runs(folder):
    start.write_start(folder)
    notebook, cell = home_cell(folder)
    nbformat.validate(notebook)
    [output] = cell.outputs
    assert "Begin: week 1, exercise 1" in output.data["text/html"]
    assert "shardlab study hint week01.one" in output.data["text/html"]
    assert "Next: week01.one" in output.data["text/plain"] and "<" not in output.data["text/plain"]


def test_a_new_start_renews_the_content_and_keeps_the_learners_cells(folder):
    start.write_start(folder)
    path = folder.path / "start.ipynb"
    before = path.read_bytes()
    start.write_start(folder)
    assert path.read_bytes() == before
    notebook, _ = home_cell(folder)
    notebook.cells.append(nbformat.v4.new_markdown_cell("my notes"))
    page.write(path, page.text_of(notebook))
    check(folder, "week01.one", points=2)
    start.write_start(folder)
    notebook, cell = home_cell(folder)
    assert (
        notebook.cells[-1].source == "my notes" and "Continue: week 1, exercise 2" in cell.outputs[0].data["text/html"]
    )


def test_a_page_of_version_1_is_moved_to_attempts(folder):
    old = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("study.panel()  # mine", id=start.OLD_CELL)])
    page.write(folder.path / "start.ipynb", page.text_of(old))
    start.write_start(folder)
    assert home_cell(folder)[1].outputs
    assert "# mine" in (folder.attempts / "start-1.ipynb").read_text()


@pytest.mark.parametrize("text", ["{", "", page.text_of(nbformat.v4.new_notebook())])
def test_another_or_a_broken_page_is_left_as_it_is(folder, text):
    (folder.path / "start.ipynb").write_text(text)
    start.write_start(folder)
    assert (folder.path / "start.ipynb").read_text() == text


def test_a_broken_course_gets_a_page_without_content(folder):
    page.page_path(folder.course, LATER).write_text("{")
    start.write_start(folder)
    assert not home_cell(folder)[1].outputs


# In a kernel

WITHOUT_WIDGETS = "import sys\n\nsys.modules['ipywidgets'] = None\n\n"


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", WITHOUT_WIDGETS])
def test_in_a_kernel_there_are_buttons_or_commands(tmp_path, before):
    folder, _ = begin(tmp_path / "work", COURSE)
    cell = nbformat.v4.new_code_cell(f"{before}from shardlab import home\n\nhome.show()")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder.path)}}).execute()
    data = [output["data"] for output in cell.outputs]
    assert "Begin: week 0, exercise 1" in data[0]["text/html"] and "Next: week00" in data[0]["text/plain"]
    commands = "shardlab study hint week00.first-all-reduce"
    if before:
        assert len(data) == 1 and commands in data[0]["text/html"]
    else:
        assert commands in data[1]["text/html"] and "application/vnd.jupyter.widget-view+json" in data[2]
