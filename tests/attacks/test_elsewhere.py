"""The sandbox in new users' setups: the system's Python, checkouts in /tmp and in visible folders, without root."""

import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.authoring.course import ROOT, copy_course
from autograder.jobs import places
from tests import levels
from tests.attacks.another_user import as_the_user

PARTS = ("autograder", "labs/shardlab", "solutions", "tests", "nbgrader_config.py")
SYSTEM_PYTHON = Path("/usr/bin/python3")
CASES = 8

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]


@pytest.fixture(scope="module")
def below_tmp() -> Iterator[Path]:
    """A folder in /tmp, whatever TMPDIR says, with a virtual environment and the course in its lib folder."""
    folder = Path(tempfile.mkdtemp(prefix="sys602-elsewhere-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        venv.create(folder / "venv", symlinks=True)
        (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (site_packages / "others.pth").write_text("\n".join(places.packages()) + "\n")
        for course in (folder / "course", folder / "venv" / "lib" / "course"):
            copy_compiled(course)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_compiled(course: Path) -> None:
    """Copy with byte code, as after a first run: it is stored next to the modules that checks mask."""
    copy_course(course, PARTS)
    compileall.compile_dir(course / "labs", quiet=2)


def judge_at(level: int, python: Path, course: Path, *, as_user: bool = False) -> None:
    """Run the chosen cases from `course`; each must have its expected result."""
    if not as_user:
        levels.require(level)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        words = [str(python), str(course / "tests" / "attacks" / "in_a_place.py"), str(level), folder]
        paths = [course / "labs", course, *(places.packages() if python == SYSTEM_PYTHON else ())]
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": folder,
        }
        words = as_the_user(words) if as_user else words
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=350, check=False)
    if as_user and any(word in done.stderr for word in ("unshare:", "setpriv:", "mount:")):
        pytest.skip(f"nobody can become another user here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    levels.go_on(level, found.get("level"))
    assert len(found) == CASES and {name: wrong for name, wrong in found.items() if wrong is not None} == {}


@pytest.mark.parametrize("level", [3, 2])
def test_with_the_systems_own_python(level):
    asked = "import sysconfig; print(sysconfig.get_python_version())"
    if not SYSTEM_PYTHON.exists():
        pytest.skip("no /usr/bin/python3")
    version = subprocess.run([SYSTEM_PYTHON, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    if version != f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip(f"/usr/bin/python3 is {version} and cannot import the packages of this Python")
    judge_at(level, SYSTEM_PYTHON, ROOT)


@pytest.mark.parametrize("level", [3, 2])
def test_from_a_checkout_below_tmp(below_tmp, level):
    judge_at(level, below_tmp / "venv" / "bin" / "python", below_tmp / "course")


@pytest.mark.parametrize("level", [3, 2])
def test_from_a_checkout_below_what_a_sandbox_shows(below_tmp, level):
    """As in /usr/src: solutions and checks are hidden."""
    judge_at(level, below_tmp / "venv" / "bin" / "python", below_tmp / "venv" / "lib" / "course")


def test_as_an_ordinary_user(below_tmp):
    judge_at(3, below_tmp / "venv" / "bin" / "python", below_tmp / "course", as_user=True)
