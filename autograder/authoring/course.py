"""Where the course is stored, its nbgrader configuration, and how to run one of nbgrader's steps."""

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from nbconvert.writers import FilesWriter
from nbgrader.converters import BaseConverter
from nbgrader.converters.base import NbGraderException
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("autograder", "course", "labs/shardlab", "solutions", "nbgrader_config.py")
MADE_LATER = shutil.ignore_patterns("submitted", "students.csv", "verdicts", "autograded", "feedback", "gradebook.db*")


def pages(root: Path = ROOT) -> Path:
    """Return the folder of the students' notebooks: `course/`, or the pages inside an installed package."""
    installed = Path(root) / "shardlab" / "pages"
    return installed if installed.is_dir() else Path(root) / "course"


def copy_course(to: Path, parts: Sequence[str] = PARTS) -> Path:
    """Copy files and folders of the course into a folder, without submissions and grades, and return the folder."""
    for part in parts:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to / part, ignore=_not_copied)
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, to / part)
    return to


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """Names that a copy leaves out: caches and, directly in autograder/, grading results (but not templates)."""
    made = MADE_LATER(folder, names) if Path(folder) == ROOT / "autograder" else set()
    return {"__pycache__", *made}


def load_config(root: Path = ROOT) -> Config:
    """Read `nbgrader_config.py` of a course.

    Raises ValueError when the folder has no such file.
    """
    root = Path(root).resolve()
    if not (root / "nbgrader_config.py").is_file():
        raise ValueError(f"{root} has no nbgrader_config.py: pass the folder that contains solutions/ and course/")
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


@contextmanager
def nbgrader_programs() -> Iterator[None]:
    """Put the folder of this Python's programs first on PATH: nbgrader runs `alembic` by name to create a gradebook."""
    before = os.environ.get("PATH")
    os.environ["PATH"] = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before


def run_step(step: BaseConverter, week: str) -> None:
    """Run one step of nbgrader (generate, autograde, feedback) quietly.

    Raises ValueError with nbgrader's reason as one sentence when the step fails.
    """
    with _quietly(step, week):
        step.start()


class StudentStep:
    """One of nbgrader's steps, run for one student after another; its exporter and templates are loaded only once.

    `run` raises ValueError like `run_step`.
    """

    def __init__(self, step: BaseConverter, week: str) -> None:
        self._step, self._week = step, week
        step.writer = FilesWriter(parent=step, config=step.config)
        step.exporter = step.exporter_class(parent=step, config=step.config)
        for one in step.preprocessors:
            step.exporter.register_preprocessor(one)

    def run(self, student: str) -> None:
        """Do what `step.start()` does for one student, but reuse the exporter and do not treat names as glob patterns:
        nbgrader would interpret brackets in a student's name.
        """
        step: Any = self._step
        folder = step._format_source(self._week, student)
        step.assignments = {folder: [os.path.join(folder, f"{self._week}.ipynb")]}
        with _quietly(step, self._week), chdir(step.coursedir.root):
            step.convert_notebooks()


@contextmanager
def _quietly(step: BaseConverter, week: str) -> Iterator[None]:
    """Silence a step; if it fails, raise ValueError with nbgrader's reason as one sentence."""
    said: list[str] = []
    listener = logging.Handler(logging.ERROR)
    listener.emit = lambda record: said.append(record.getMessage())
    step.log = logging.Logger("nbgrader")
    step.log.addHandler(listener)
    try:
        with nbgrader_programs(), warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # raised by nbgrader's own queries
            yield
    except NbGraderException as error:
        traceback = next((text for text in said if text.startswith("Traceback")), str(error))
        raise ValueError(f"{week}: nbgrader reports: {traceback.strip().splitlines()[-1]}") from error
