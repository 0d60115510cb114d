"""A tiny course of one week, so that these tests do not depend on the content of the real weeks."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from autograder.authoring import notebooks
from autograder.authoring.course import ROOT
from autograder.grading.hashes import sealed
from autograder.grading.verdict_files import write_verdicts
from autograder.reading.dossier import open_dossier

TINY_SOURCE = '''\
# %% [markdown]
# # Week 1

# %%
import math

# %% exercise="week01.double"
def double(number):
    """Return twice the number."""
    ### BEGIN SOLUTION
    return number + number  # the secret way
    ### END SOLUTION

# %% check="week01.double" points=3
assert double(2) == 4

# %% tags=["interactive"]
print("a slider")

# %% exercise="week01.triple"
def triple(number):
    """Return three times the number."""
    ### BEGIN SOLUTION
    return 3 * number  # the secret way
    ### END SOLUTION

# %% check="week01.triple" points=2
assert triple(2) == 6

# %% [markdown] manual="week01.interview" points=2
# ### BEGIN SOLUTION
# The secret way.
# ### END SOLUTION
'''
TINY_WEEK = "week01_tiny"


TINY_PLOT = """

# %% manual="week01.plot" points=2
def curve(number):
    ### BEGIN SOLUTION
    return [double(n) for n in range(number)]
    ### END SOLUTION
"""


def make_tiny_course(root: Path, source: str = TINY_SOURCE) -> Path:
    """Write nbgrader_config.py, solutions/week01_tiny/ and the feedback template to a folder, and return it."""
    folder = root / "solutions" / TINY_WEEK
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(ROOT / "autograder" / "templates", root / "autograder" / "templates")
    (folder / f"{TINY_WEEK}.py").write_text(source)
    return root


def hand_in(root: Path, student: str, answers: dict[str, str], change: Callable | None = None) -> Path:
    """Write a student's notebook with these answers ("week01-double": source) and return its path."""
    notebook = notebooks.release(TINY_WEEK, root)
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    if change:
        change(notebook)
    path = root / "autograder" / "submitted" / student / TINY_WEEK / f"{TINY_WEEK}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return path


def write_verdict(root: Path, student: str, exercises: dict[str, Any], **more: Any) -> None:
    """Write a verdict on this student's submission, as the judge does."""
    digest = open_dossier(student, TINY_WEEK, root / "autograder" / "submitted", root).digest
    content = {"student": student, "assignment": TINY_WEEK, "digest": digest, "level": 3, "exercises": exercises}
    write_verdicts(sealed(content | more), root)
