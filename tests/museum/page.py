"""`python -m tests.museum.page` measures all exhibits and writes docs/bug-museum.md again."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from autograder.authoring import notebooks
from tests.museum.exhibits import EXHIBITS, WITHOUT_A_THREAD, Check, Exhibit

PAGE = Path(__file__).parents[2] / "docs" / "bug-museum.md"
HEAD = """# The bug museum

<!-- written by `python -m tests.museum.page`, which measures every number again; the texts are in tests/museum/ -->

Nobody here was careless. The people who build the frameworks that you use wrote these bugs, others reviewed them, and
models were trained with them. Almost all have the right shapes and a falling loss. In all of them, **somebody compared
the wrong thing, or nothing**.

Each exhibit starts with a number, then says what happened, and then which checks find the bug. That is the question
that matters when you write your own code. Before you read an exhibit, look at its number and guess.

Code in this repository measures the numbers on real ranks, mostly the cell "as found" of the week's own page. The
threads are where the bug, or a closely related one, is public; we read part of each for this page, not all. Where a
hunt is graded, the museum describes the symptom, and the fix is yours.
"""
CHECKS = "## Six checks"
LAST = """## Takeaways

Short tests would have found most of these bugs. **Run the same step on one process and on two, three and four ranks.
Compare gradients, not losses. Compare rank with rank. Count the bytes. Use sizes that do not divide, a rank that has no
data, and a tensor that is not contiguous.** Then change the mesh and do it again.
"""


def counted() -> str:
    """The table of checks: how many exhibits each would have found, and for how many it is the cheapest."""
    lines = ["| check | what it does | finds | cheapest for |", "|---|---|---|---|"]
    for check in Check:
        finds = sum(check in one.found_by for one in EXHIBITS)
        first = sum(check is one.found_by[0] for one in EXHIBITS)
        lines.append(f"| **{check.name.lower()}** | {check.value} | {finds} | {first} |")
    silent = sum(Check.RESULT not in one.found_by for one in EXHIBITS)
    text = (
        f"The result of a step does not reveal {silent} of {len(EXHIBITS)} exhibits: it is right, or it never arrives."
    )
    return "\n".join([*lines, "", text])


def section(number: int, exhibit: Exhibit) -> str:
    """An exhibit with its numbers, measured now."""
    numbers = exhibit.symptom()
    wrong = [name for name in exhibit.exact if not abs(numbers[name]) < 1e-5]
    if wrong:
        raise ValueError(f"{exhibit.title}: the text calls {wrong} exact, and they are {numbers}")
    name = notebooks.find_week(exhibit.week)
    page = f"[{name}](../course/{name}/{name}.ipynb)"
    found = ", ".join(check.name.lower() for check in exhibit.found_by)
    return "\n".join(
        [
            f"### {number} · {exhibit.title.format(**numbers)}",
            "",
            textwrap.fill(exhibit.story.format(**numbers), 120, break_long_words=False, break_on_hyphens=False),
            "",
            f"- found by: **{found}**",
            f"- hunt: `{exhibit.hunt}` in {page}; measured by {exhibit.seen}",
            f"- threads: {', '.join(linked(exhibit.threads))}",
        ]
    )


def linked(threads: Iterable[str]) -> list[str]:
    """Links to threads on GitHub, which leads from /issues/ to a pull request of the same number."""
    parts = [re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", thread) for thread in threads]
    return [f"[{one[0]}](https://github.com/{one[1]}/issues/{one[2]})" for one in parts if one]


def by_exhibit(titles: Iterable[str]) -> str:
    """Which check finds which bug: a row for each exhibit, a column for each check."""
    names = [check.name.lower() for check in Check]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for number, (title, exhibit) in enumerate(zip(titles, EXHIBITS, strict=True), 1):
        marks = ["●" if check is exhibit.found_by[0] else "○" if check in exhibit.found_by else "" for check in Check]
        lines.append(f"| {number} · {title} | {' | '.join(marks)} |")
    return "\n".join([*lines, "", "● the cheapest check, ○ also finds it."])


def rooms() -> dict[Check, list[int]]:
    """The numbers of the exhibits by their cheapest check."""
    return {check: [n for n, one in enumerate(EXHIBITS, 1) if one.found_by[0] is check] for check in Check}


ROOMS = {
    Check.RESULT: "## Room 1: the result is wrong, and nobody looked",
    Check.GRADIENT: "## Room 2: the result is right, the gradient is not",
    Check.ORDER: "## Room 3: everything is right, in the wrong order",
    Check.MEMORY: "## Room 4: it works, and does not fit",
    Check.TYPE: "## Room 5: what is this number?",
}


def whole() -> str:
    """The page."""
    sections = {number: section(number, exhibit) for number, exhibit in enumerate(EXHIBITS, 1)}
    parts = [HEAD.rstrip(), CHECKS, counted()]
    for check, numbers in rooms().items():
        parts += [ROOMS[check], *(sections[number] for number in numbers)] if numbers else []
    titles = [text.splitlines()[0].split(" · ", 1)[1] for text in sections.values()]
    parts += ["## Which check finds which bug?", by_exhibit(titles), others(), LAST.rstrip()]
    return "\n\n".join(parts) + "\n"


def others() -> str:
    """Hunts of the weeks that are not exhibits."""
    text = ", ".join(f"`{one}`" for one in WITHOUT_A_THREAD)
    text = f"Three more hunts have no public thread, because these bugs rarely leave the author's machine: {text}."
    return textwrap.fill(text, 120, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(whole(), encoding="utf-8")
