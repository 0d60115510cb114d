"""README, CONTRIBUTING and the pages of docs and labs name only what exists; the maps among them are complete."""

import re

import nbformat
import pytest
import typer
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from shardlab.commands.cli import app as shardlab_app
from shardlab.study.page import pages_in

from autograder.cli import app as autograder_app
from autograder.weeks import WEEKS as WEEKS_OF_CHECKS
from tests.museum.exhibits import EXHIBITS
from tests.named_on_pages import ROOT, TOP, is_defined, lines_of_code, missing_on, path_is_there, paths

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / ".github" / "pull_request_template.md",
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "labs").rglob("README.md"),
]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SHARDLAB, AUTOGRADER, WEEKS = "## shardlab: imports run downward only", "## autograder", "# Syllabus"
COMMANDS = {
    "shardlab": typer.main.get_command(shardlab_app).commands,
    "autograder": typer.main.get_command(autograder_app).commands,
}


def wrong_commands(text: str) -> list[str]:
    """Return make targets, commands and options of ours, benchmarks and lab programs that do not exist."""
    found = []
    for line in lines_of_code(text):
        first, *rest = re.sub(r"^(\w+=\S+ +)*(\.venv/bin/)?", "", line).split() or [""]
        if first == "make" and rest and re.fullmatch(r"[a-z-]+", rest[0]) and rest[0] not in TARGETS:
            found.append(f"make {rest[0]}")
        elif first in COMMANDS and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
            found += wrong_options(first, rest[0], rest[1:])
        elif first == "python" and rest[:2] == ["-m", "benchmarks"]:
            wanted = [word for word in rest[2:] if re.fullmatch(r"[a-z][a-z-]+", word)]
            found += [f"benchmarks {one}" for one in wanted if not is_defined(f"benchmarks.{one.replace('-', '_')}")]
        elif first in ("python", "torchrun"):
            found += wrong_program(rest)
    return found


def wrong_options(program: str, name: str, rest: list[str]) -> list[str]:
    command = COMMANDS[program].get(name)
    if command is None:
        return [f"{program} {name}"]
    if rest and rest[0] in getattr(command, "commands", {}):
        command, name = command.commands[rest[0]], f"{name} {rest[0]}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    typed = {word.partition("=")[0] for word in rest if word.startswith("--")}
    return [f"{program} {name} {option}" for option in sorted(typed - known - {"--help"})]


def wrong_program(rest: list[str]) -> list[str]:
    """Check a program of labs/ and its options; typer derives these from parameter names."""
    place = next((place for place, word in enumerate(rest) if word.startswith("labs/")), None)
    if place is None:
        return []
    program = ROOT / rest[place]
    if not program.is_file():
        return [rest[place]]
    source = "".join(path.read_text() for path in program.parent.glob("*.py"))
    typed = [word.partition("=")[0] for word in rest[place + 1 :] if word.startswith("--")]
    known = [*re.findall(r'"(--[a-z-]+)"', source), "--help"]
    known += [f"--{name.replace('_', '-')}" for name in re.findall(r"^ +(\w+): ", source, re.MULTILINE)]
    return [f"{rest[place]} {option}" for option in typed if option not in known]


@pytest.mark.every_case
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_is_there(page):
    text = page.read_text()
    assert missing_on(text, page.parent) + wrong_commands(text) == []


@pytest.mark.every_case
@pytest.mark.parametrize("page", sorted(ROOT.glob("solutions/*/*.py")), ids=lambda page: page.stem)
def test_a_week_names_paths_that_are_there(page):
    ours = [path for path in paths(page.read_text()) if "/" in path and path.split("/")[0] in TOP]
    assert [path for path in ours if not path_is_there(path, page.parent)] == []


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, row by row, without its header."""
    text = (ROOT / "docs" / page).read_text().split(f"{heading}\n", 1)[1]
    lines = text[text.index("\n|") + 1 :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def on_the_map(heading: str) -> list[str]:
    """Return the parts that docs/developing.md lists below a heading."""
    first_column = " ".join(first for first, *_ in table("developing.md", heading))
    return [name.rstrip("/") for name in re.findall(r"`(.+?)`", first_column)]


def test_the_map_of_shardlab_is_its_listing():
    there = {path.name for path in (ROOT / "labs" / "shardlab").iterdir()} - {"__init__.py", "__pycache__"}
    assert sorted(on_the_map(SHARDLAB)) == sorted(there)


def test_the_map_of_the_autograder_names_what_lies_there():
    named = on_the_map(AUTOGRADER)
    assert named and [name for name in named if not (ROOT / "autograder" / name).exists()] == []


def test_a_week_is_ready_in_the_syllabus_when_it_is_there():
    state = {int(first.split()[0]): last.strip("*") for first, *_, last in table("syllabus.md", WEEKS)}
    there = {int(path.name[4:6]) for path in ROOT.glob("solutions/week*")}
    assert sorted(state) == list(range(17)) and set(state.values()) <= {"ready", "planned"}
    assert {week for week, word in state.items() if word == "ready"} == there


def test_the_first_screen_of_the_readme_counts_what_is_there():
    text = " ".join((ROOT / "README.md").read_text().split())
    notebooks = len(pages_in(ROOT / "course", ".ipynb"))
    assert f"[{notebooks} notebooks](" in text
    assert f" {sum(map(len, WEEKS_OF_CHECKS.values()))} graded exercises " in text
    assert f"[{len(EXHIBITS)} public bugs](" in text and all(one.threads for one in EXHIBITS)


def images_without_words(text: str) -> list[str]:
    """Sources of the images of a Markdown text, or of HTML in it, whose alt text is empty or only a file name."""
    found = []
    for token in MarkdownIt().parse(text):
        for one in token.children or []:
            if one.type == "image" and not re.search(r"\w \w", one.content):
                found.append(str(one.attrs["src"]))
    for tag in BeautifulSoup(text, "html.parser").find_all("img"):
        if not re.search(r"\w \w", str(tag.get("alt", ""))):
            found.append(str(tag.get("src")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_image_has_an_alt_text(page):
    assert images_without_words(page.read_text()) == []


@pytest.mark.parametrize("path", sorted((ROOT / "course").rglob("*.ipynb")), ids=lambda path: path.stem)
def test_every_image_of_a_week_has_an_alt_text(path):
    prose = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"]
    assert images_without_words("\n\n".join(prose)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("![Two ranks wait](a.png)", []),
        ("a ![](a.png) b", ["a.png"]),
        ("![a.png](a.png)", ["a.png"]),
        ("> - ![ ][x]\n\n[x]: a.png", ["a.png"]),
        ('<img src="a.png">', ["a.png"]),
        ('<p><img alt="" src="a.png"></p>', ["a.png"]),
        ('<img src="a.png" alt="Two ranks wait">', []),
        ("`![](a.png)`", []),
    ],
)
def test_an_image_without_words_is_noticed(text, found):
    assert images_without_words(text) == found


RIGHT = """# A page · of two
[here](#a-page--of-two) and [there](docs/teaching.md#written-answers), [away](https://example.org/nothing)
`labs/shardlab/costs/traffic.py` `costs/traffic.py` `traffic.py` `costs/` `shardlab.costs.traffic.ring_all_reduce_bytes`
`solutions/weekNN_topic/weekNN_topic.py` `labs/shardlab/{costs,model}/` `autograder/submitted/STUDENT`
`torch.utils.nothing` `week01.exchange` `Timeline.span_idle` `ModuleStage(...)`
`make lab GPU=1` `autograder grade WEEK --student ada`
```python
from shardlab.pipeline_parallel.simulation import peak_activations, simulate
```
```bash
$ shardlab schedule 1f1b --ranks 4  # --nothing
torchrun --nproc-per-node 2 labs/lab03-zero/zero_stage1.py --hidden 32
python -m benchmarks data-parallel
```
"""


def test_the_reader_takes_what_is_there():
    assert missing_on(RIGHT, ROOT) + wrong_commands(RIGHT) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[x](docs/nothing.md)", "the link docs/nothing.md"),
        ("[x](docs/teaching.md#nothing)", "the link docs/teaching.md#nothing"),
        ("# One\n[x](#two)", "the link #two"),
        ("labs/shardlab/nothing.py without marks", "the path labs/shardlab/nothing.py"),
        ("```text\nautograder/nothing/\n```", "the path autograder/nothing/"),
        ("`nothing.py`", "the path nothing.py"),
        ("`costs/nothing`", "the path costs/nothing"),
        ("`nothing/`", "the path nothing/"),
        ("`labs/shardlab/{costs,nothing}`", "the path labs/shardlab/{costs,nothing}"),
        ("`solutions/weekNN_topic/nothing.py`", "the path solutions/weekNN_topic/nothing.py"),
        ("`shardlab.nothing`", "the name shardlab.nothing"),
        ("`shardlab.costs.traffic.nothing`", "the name shardlab.costs.traffic.nothing"),
        ("`shardlab.data_parallel.zero3.prefetch`", "the name shardlab.data_parallel.zero3.prefetch"),  # a class's
        ("`traffic.nothing`", "the name traffic.nothing"),
        ("`Timeline.nothing`", "the name Timeline.nothing"),
        ("`Nothing`", "the name Nothing"),
        ("`nothing(x, y)`", "the name nothing"),
        ("```python\nfrom shardlab.meter import record, nothing\n```", "the name shardlab.meter.nothing"),
        ("`week01.nothing`", "the exercise week01.nothing"),
        ("`make nothing`", "make nothing"),
        ("`shardlab nothing`", "shardlab nothing"),
        ("```bash\n$ autograder grade week01 --nothing\n```", "autograder grade --nothing"),
        ("`python -m shardlab.nothing`", "the name shardlab.nothing"),
        ("`python -m benchmarks nothing`", "benchmarks nothing"),
        ("```bash\npython labs/lab03-zero/zero_stage1.py --nothing 2\n```", "labs/lab03-zero/zero_stage1.py --nothing"),
    ],
)
def test_the_reader_notices_what_is_not_there(text, sentence):
    assert missing_on(text, ROOT) + wrong_commands(text) == [sentence]
