"""Render the page about a class: one HTML file without scripts that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autograder.dashboard.summary import Week

SHOWN = 5  # mistakes per exercise; the others are only counted


def page(weeks: Sequence[Week], *, names: bool = True, ungraded: Mapping[str, int] | None = None) -> str:
    """Return the HTML of some weeks. names: False omits all students, which makes a page you can show to the class.

    `ungraded` counts the submissions of weeks in which nobody has been graded.
    """
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template("dashboard.html.j2").render(
        weeks=weeks, names=names, shown=SHOWN, ungraded=ungraded or {}
    )
