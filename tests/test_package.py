"""A wheel of the course is the whole course: pages are created and checked without a repository around it."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.authoring import notebooks

ROOT = Path(__file__).parents[1]
NEEDED = ("labs", "autograder", "course", "pyproject.toml", "setup.py", "README.md", "LICENSE")
WEEK = "week01_collectives"
BEGIN = "from shardlab.commands.cli import app; app(['study', 'begin'])"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the files that a wheel of the course installs."""
    copy, wheels, site = (tmp_path_factory.mktemp(name) for name in ("copy", "wheels", "site"))
    for name in NEEDED:
        one = ROOT / name
        if one.is_dir():
            shutil.copytree(one, copy / name, ignore=shutil.ignore_patterns("__pycache__", "submitted", "verdicts"))
        else:
            shutil.copy(one, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", wheels, copy]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = wheels.glob("sys602-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    return site


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_exercise_is_laid_out_answered_and_checked(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    laid_out = subprocess.run(
        [sys.executable, "-c", BEGIN], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "created 17 pages" in " ".join(laid_out.stdout.split()), laid_out.stderr

    page = nbformat.read(tmp_path / "work" / WEEK / f"{WEEK}.ipynb", 4)
    solved = {cell.id: cell.source for cell in notebooks.read_source(WEEK).cells}
    page.cells = page.cells[: 1 + [cell.id for cell in page.cells].index("week01-exchange-check")]
    for cell in page.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = solved[cell.id]
    page.cells.append(nbformat.v4.new_code_cell("import autograder, shardlab\nautograder.__file__, shardlab.__file__"))
    resources = {"metadata": {"path": str(tmp_path / "work" / WEEK)}}
    NotebookClient(page, timeout=120, kernel_name="python3", resources=resources).execute(env=dict(os.environ))
    *_, checked, where = page.cells
    assert "2 of 2 points" in checked.outputs[0].data["text/plain"]
    assert where.outputs[0]["data"]["text/plain"].count(str(installed)) == 2
