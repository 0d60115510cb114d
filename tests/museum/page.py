"""`python -m tests.museum.page` measures all exhibits and rewrites docs/bug-museum.md."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from autograder.authoring import notebooks
from tests.museum.exhibits import EXHIBITS, WITHOUT_A_THREAD, Check, Exhibit

PAGE = Path(__file__).parents[2] / "docs" / "bug-museum.md"
HEAD = """# The bug museum

<!-- written by `python -m tests.museum.page`, which measures every number again; the texts are in tests/museum/ -->

Nobody here was careless. These bugs were written by people who build the frameworks you use, and reviewed by others,
and models were trained with them. Almost all have the right shapes and a falling loss. They have one thing in common:
**somebody compared the wrong thing, or nothing**.

So every exhibit starts with a number, then says what happened, and then answers the question that matters when you
write your own code: *which check would have found it?* Before you read an exhibit, look at its number and guess.

The numbers are measured by code in this repository on real ranks, mostly by the cell "as found" of the week's own
page. The threads are where the bug, or a close relative, is public; we read a part of each for this page, not all.
If a hunt is graded, the museum describes the symptom; the fix is up to you.
"""
CHECKS = "## Six checks"
LAST = """## What to remember

Short tests would have found most of these: **run the same step on one process and on two, three and four ranks, and
compare gradients, not losses; compare ranks with each other; count the bytes; and use sizes that do not divide evenly,
a rank that has nothing, and a tensor that is not contiguous.** Then change the mesh and do it again.
"""


def counted() -> str:
    """Return the table of checks: how many exhibits each would have found, and for how many it is the cheapest."""
    lines = ["| check | what it does | finds | cheapest for |", "|---|---|---|---|"]
    for check in Check:
        finds = sum(check in one.found_by for one in EXHIBITS)
        first = sum(check is one.found_by[0] for one in EXHIBITS)
        lines.append(f"| **{check.name.lower()}** | {check.value} | {finds} | {first} |")
    silent = sum(Check.RESULT not in one.found_by for one in EXHIBITS)
    text = f"The result of a step does not show {silent} of the {len(EXHIBITS)} exhibits: it is right, or never comes."
    return "\n".join([*lines, "", text])


def section(number: int, exhibit: Exhibit) -> str:
    """Return an exhibit with its numbers, measured now."""
    numbers = exhibit.symptom()
    wrong = [name for name in exhibit.exact if not abs(numbers[name]) < 1e-5]
    if wrong:
        raise ValueError(f"{exhibit.title}: the text calls {wrong} exact, but they are {numbers}")
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
    """Return links to threads on GitHub, which redirects /issues/ to a pull request of the same number."""
    parts = [re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", thread) for thread in threads]
    return [f"[{one[0]}](https://github.com/{one[1]}/issues/{one[2]})" for one in parts if one]


def by_exhibit(titles: Iterable[str]) -> str:
    """Return a table of which check finds which exhibit."""
    names = [check.name.lower() for check in Check]
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for number, (title, exhibit) in enumerate(zip(titles, EXHIBITS, strict=True), 1):
        marks = ["●" if check is exhibit.found_by[0] else "○" if check in exhibit.found_by else "" for check in Check]
        lines.append(f"| {number} · {title} | {' | '.join(marks)} |")
    return "\n".join([*lines, "", "● the cheapest check, ○ also finds it."])


def rooms() -> dict[Check, list[int]]:
    """Return the numbers of the exhibits by their cheapest check."""
    return {check: [n for n, one in enumerate(EXHIBITS, 1) if one.found_by[0] is check] for check in Check}


ROOMS = {
    Check.RESULT: "## Room 1: the result is wrong, and nobody looked",
    Check.GRADIENT: "## Room 2: the result is right, but the gradient is not",
    Check.ORDER: "## Room 3: everything is right, in the wrong order",
    Check.MEMORY: "## Room 4: it works, but does not fit",
    Check.TYPE: "## Room 5: what is this number?",
}


def whole() -> str:
    """The page."""
    sections = {number: section(number, exhibit) for number, exhibit in enumerate(EXHIBITS, 1)}
    parts = [HEAD.rstrip(), CHECKS, counted()]
    for check, numbers in rooms().items():
        parts += [ROOMS[check], *(sections[number] for number in numbers)] if numbers else []
    titles = [text.splitlines()[0].split(" · ", 1)[1] for text in sections.values()]
    parts += ["## Which check finds what?", by_exhibit(titles), others(), LAST.rstrip()]
    return "\n\n".join(parts) + "\n"


def others() -> str:
    """Return a sentence about hunts of the weeks that are not exhibits."""
    text = ", ".join(f"`{one}`" for one in WITHOUT_A_THREAD)
    text = f"Three more hunts have no thread here, because almost everyone writes these bugs at some point: {text}."
    return textwrap.fill(text, 120, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(whole(), encoding="utf-8")
