"""Write the package `mine` of the course's own answers as plain files, as a learner has it who passed every check."""

from functools import lru_cache
from pathlib import Path

from shardlab.own.blocks import module_source
from shardlab.own.loader import course_source
from shardlab.own.pieces import GIVEN, PIECES

from autograder.reading import stand_ins


@lru_cache
def modules() -> dict[str, str]:
    """{module: source}."""
    blocks = stand_ins.from_solutions()
    sources = {name: module_source(name, {key: blocks[key] for key in PIECES[name]}) for name in PIECES}
    return sources | {name: course_source(name) for name in GIVEN}


def compose(folder: Path) -> Path:
    """Write `folder`/mine and return it."""
    target = folder / "mine"
    target.mkdir(parents=True)
    (target / "__init__.py").write_text("")
    for name, source in modules().items():
        (target / f"{name}.py").write_text(source)
    return target
